"""The command ``python -m torture``."""

from __future__ import annotations

import sys

from torture.cli import main

if __name__ == "__main__":
    sys.exit(main())
