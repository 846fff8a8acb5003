"""A store that grows before your eyes: ``make explore``.

A second process writes the files of this Python installation, path by path, into a store with small
buffers, so that half a minute shows flushes and compactions.  This one serves the live page of
``lsmkv explore`` meanwhile, and opens it in a browser.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import subprocess
import sys
import tempfile
import time
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import lsmkv
import lsmkv.counters
from lsmkv.explore.exploration import Exploration
from lsmkv.explore.page import file_page

from .workloads.files import FILE_LIMIT, python_roots, read_tree

KIB: Final = 1024
OPTIONS: Final = lsmkv.Options(
    write_buffer_size_bytes=192 * KIB,
    table_size_bytes=512 * KIB,
    level1_size_bytes=1024 * KIB,
    size_ratio=4,
    level0_compaction_trigger=4,
)
"""Small, so that a few megabytes make three levels."""

SECONDS: Final = 30.0
_BATCH: Final = 50
_SEED: Final = 1970


def fill(path: str, seconds: float, file_limit: int) -> None:
    """Write one entry for each file of this Python to the store in ``path``, spread over a time."""
    entries = read_tree(python_roots(), file_limit)
    random.Random(_SEED).shuffle(entries)
    began_s = time.monotonic()
    with lsmkv.open(path, OPTIONS) as db, lsmkv.counters.publish(db):
        for at in range(0, len(entries), _BATCH):
            with db.write_batch() as batch:
                for key, value in entries[at : at + _BATCH]:
                    batch.put(key, value)
            due_s = began_s + seconds * (at + _BATCH) / len(entries)
            time.sleep(max(0.0, due_s - time.monotonic()))
        db.flush()
        db.wait_until_settled()


@contextlib.contextmanager
def filling(path: str, seconds: float, file_limit: int) -> Iterator[subprocess.Popen[bytes]]:
    """The process that fills the store; it ends with the block."""
    command = [sys.executable, "-m", "bench.explore", "--fill", path]
    command += ["--seconds", str(seconds), "--files", str(file_limit)]
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            process.terminate()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.explore", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="default: %(default)s")
    parser.add_argument("--files", type=int, default=FILE_LIMIT, help="default: %(default)s")
    parser.add_argument("--out", type=Path, help="write a page to this file at the end, and stop")
    parser.add_argument("--no-open", action="store_true", help="open no browser")
    parser.add_argument("--fill", metavar="DIR", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.fill:
        fill(options.fill, options.seconds, options.files)
        return
    with tempfile.TemporaryDirectory(prefix="lsmkv-explore-") as directory:
        path = str(Path(directory, "files"))
        lsmkv.open(path, OPTIONS, error_if_exists=True).close()
        with filling(path, options.seconds, options.files) as process:
            if options.out is None:
                show(path, opens=not options.no_open)
            elif process.wait() == 0:
                options.out.write_text(file_page(path), encoding="utf-8")
                print(f"{options.out}: {options.out.stat().st_size:,} bytes")
            else:
                raise SystemExit("explore: the store could not be filled")


def show(path: str, *, opens: bool) -> None:
    """Serve the store's live page until interrupted."""
    from lsmkv.explore.server import serve

    def ready(address: str) -> None:
        print(f"Writing the files of this Python to a store; see it grow at\n{address}")
        print("Ctrl-C ends it, and removes the store.", flush=True)
        if opens:
            webbrowser.open(address)

    with Exploration(path, is_live=True) as exploration:
        serve(exploration, 0, ready)


if __name__ == "__main__":
    main()
