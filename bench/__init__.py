"""The benchmark harness: ``python -m bench`` in a checkout, ``lsmkv bench`` where it is installed."""

from __future__ import annotations

from typing import Final

COMMAND: Final = "python -m bench" if __name__ == "bench" else "lsmkv bench"
"""How this copy of the harness is called; wheels have it as the package ``lsmkv_bench``."""
