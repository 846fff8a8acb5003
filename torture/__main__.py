"""The command ``python -m torture``."""

from __future__ import annotations

import signal
import sys

from torture.framework.cli import main

if __name__ == "__main__":
    # As after an error: what is mounted is unmounted, and directories are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
