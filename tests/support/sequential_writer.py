"""A process that writes keys in order, so that a copy of its store shows every hole."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from conftest import open_small

SCRIPT: Final = """
import time
db = lsmkv.open(sys.argv[1], write_buffer_size_bytes=8192, table_size_bytes=16384,
                level1_size_bytes=32768, level0_compaction_trigger=2)
for number in range(int(sys.argv[2])):
    db[b"%08d" % number] = b"v" * 40
    if number % 50 == 49:
        print(number + 1, flush=True)
        time.sleep(0.002)
os._exit(0)
"""
"""Takes a path and how many keys; says after each 50 how many it has written."""

WITHOUT_END: Final = 1 << 40


def acknowledged(writer: subprocess.Popen[str], lines: int) -> int:
    """How many keys the writer has written, after so many more lines."""
    assert writer.stdout is not None
    return [int(writer.stdout.readline()) for _ in range(lines)][-1]


def check_prefix(path: Path, least: int) -> None:
    """The store at ``path`` has the first keys, at least ``least`` of them."""
    with open_small(path, read_only=True) as db:
        keys = list(db)
    assert keys == [b"%08d" % number for number in range(len(keys))]
    assert len(keys) >= least
