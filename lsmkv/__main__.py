"""``python -m lsmkv``: the command line."""

from __future__ import annotations

from lsmkv.cli import main

if __name__ == "__main__":
    main()
