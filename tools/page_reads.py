"""Counts what a cold look-up reads, for entries of several kinds.  ``python -m tools.page_reads``

Each kind fills a store, which is compacted to one run.  Present keys are then looked up at random with
direct reads and no block cache, so each look-up reads its block from the device.  The bytes are the
operating system's count (``read_bytes`` of ``/proc/thread-self/io``); where it has none, lsmkv's own,
which counts the same whole pages.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import lsmkv
from bench.harness.process_meter import os_read_bytes

_KEY_BYTES: Final = 16
_WORDS: Final = 2000


def _random(least: int, most: int, draw: random.Random) -> bytes:
    return draw.randbytes(draw.randint(least, most))


def _half(least: int, most: int, draw: random.Random) -> bytes:
    """A value that compresses by half."""
    return draw.randbytes((draw.randint(least, most) + 1) // 2) * 2


def _text(least: int, most: int, draw: random.Random) -> bytes:
    """Made-up words, some of them far more frequent than others."""
    length = draw.randint(least, most)
    words: list[bytes] = []
    while sum(map(len, words)) < length:
        number = int(_WORDS ** draw.random())
        words.append(b"%x " % (number * 2654435761 % (1 << 24)))
    return b"".join(words)[:length]


KINDS: Final[dict[str, Callable[[random.Random], bytes]]] = {
    "100, by half": partial(_half, 100, 100),
    "400, by half": partial(_half, 400, 400),
    "100 to 900, by half": partial(_half, 100, 900),
    "400, text": partial(_text, 400, 400),
    "50 to 700, text": partial(_text, 50, 700),
    "100, random": partial(_random, 100, 100),
    "20 to 400, random": partial(_random, 20, 400),
    "400, random": partial(_random, 400, 400),
    "1000, random": partial(_random, 1000, 1000),
    "1500, random": partial(_random, 1500, 1500),
    "2500, random": partial(_random, 2500, 2500),
    "8000, random": partial(_random, 8000, 8000),
    "100 to 3000, random": partial(_random, 100, 3000),
    "100 to 3000, text": partial(_text, 100, 3000),
}


@dataclass(frozen=True, slots=True)
class PageReads:
    """What was counted; bytes and blocks of one look-up, sizes of the whole store."""

    bytes_read: float
    blocks_read: float
    table_bytes: int
    entry_count: int
    index_bytes: int
    filter_bytes: int


def count(
    directory: str, entries: Iterator[tuple[bytes, bytes]], lookups: int, options: lsmkv.Options
) -> PageReads:
    """Write a store of ``entries`` to ``directory``, and look up a sample of its keys."""
    keys: list[bytes] = []
    with lsmkv.open(directory, options, error_if_exists=True) as db:
        for key, value in entries:
            db.put(key, value)
            keys.append(key)
        db.compact_range()
    asked = random.Random(2).choices(keys, k=lookups)
    with lsmkv.open(directory, read_only=True, direct_reads=True, block_cache_size_bytes=0) as db:
        for key in sorted(keys)[:: len(keys) // 64 + 1]:  # reads index and filters of each table
            db.get(key)
        before, counted = os_read_bytes("thread-self"), db.stats()
        for key in asked:
            assert key in db
        after, now = os_read_bytes("thread-self"), db.stats()
        memory, view = db.memory_usage(), db.inspect()
        own = now.block_read_bytes - counted.block_read_bytes
        read = own if before is None or after is None else after - before
        return PageReads(
            read / lookups,
            (now.block_reads - counted.block_reads) / lookups,
            view.size_bytes,
            len(keys),
            memory.index_bytes,
            memory.filter_bytes,
        )


def drawn(kind: str, size_bytes: int) -> Iterator[tuple[bytes, bytes]]:
    """Entries of ``kind`` with keys of 16 bytes, ``size_bytes`` of them."""
    draw = random.Random(1)
    while size_bytes > 0:
        value = KINDS[kind](draw)
        size_bytes -= _KEY_BYTES + len(value)
        yield b"%016d" % draw.randrange(10**12), value


def main() -> None:
    """Print a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mib", type=int, default=16, help="of entries (default: %(default)s)")
    parser.add_argument("--lookups", type=int, default=2000, help="(default: %(default)s)")
    parser.add_argument("--block-size-bytes", type=int, default=4096)
    parser.add_argument("--uncompressed", action="store_true", help="with compression='none'")
    parser.add_argument("--no-fit", action="store_true", help="with fit_pages=False")
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    asked = parser.parse_args()
    options = lsmkv.Options(
        block_size_bytes=asked.block_size_bytes,
        fit_pages=not asked.no_fit,
        compression="none" if asked.uncompressed else "zstd",
        background="thread",
    )
    print(
        f"{'value bytes':22}{'bytes read':>12}{'blocks':>8}{'disk':>10}{'index':>8}{'filters':>9}"
    )
    for kind in asked.kinds:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as directory:
            path = os.path.join(directory, "store")
            found = count(path, drawn(kind, asked.mib << 20), asked.lookups, options)
        of_entry = found.table_bytes / found.entry_count
        index, filters = found.index_bytes, found.filter_bytes
        print(
            f"{kind:22}{found.bytes_read:12,.0f}{found.blocks_read:8.2f}{of_entry:10.2f}"
            f"{index / found.entry_count:8.2f}{filters / found.entry_count:9.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
