"""Stores for tests of the page: several runs, memtables, and keys and values that attack a page."""

from __future__ import annotations

import base64
import gzip
import random
import re
from pathlib import Path
from typing import Any, Final

import msgspec

import lsmkv
from lsmkv.explore import contract
from lsmkv.explore.exploration import Detail

HOSTILE: Final = {
    b"<script>document.title='taken'</script>": b"<img src=x onerror=document.title='taken'>",
    b"</script><svg onload=alert(1)>": b'" onmouseover="alert(1)',
    b"\x00\x07\x1b[31m\xff\xfe": b"\x80\x81",
    "\u202eabc\u2028\u2029\ufeff".encode(): "\U0001f600".encode(),
    b"L" * 65_535: b"long key",
    b"": b"the empty key",
    b"${x} $title $data &amp; &lt;": b"$script",
}
"""Entries whose keys and values must show as text."""

OPTIONS: Final = lsmkv.Options(
    write_buffer_size_bytes=32 * 1024,
    block_size_bytes=512,
    level1_size_bytes=64 * 1024,
    table_size_bytes=16 * 1024,
    size_ratio=4,
    compression="none",
    max_immutable_memtables=2,
)

MANUAL: Final = lsmkv.Options(
    level0_compaction_trigger=1000, level0_slowdown_trigger=1000, level0_stop_trigger=1000
)
"""Of stores that compact only when told to."""

FEW: Final = Detail(present=20, absent=20, false_positives=5, tried=500, filters=100)
"""For tests that ask about no number of lookups."""


def make_store(path: Path, entry_count: int = 3000, **options: Any) -> None:
    """A store of random keys, some overwritten and deleted, with :data:`HOSTILE` entries.

    The last writes stay in the log.
    """
    draw = random.Random(7)
    with lsmkv.open(path, OPTIONS.replace(**options)) as db:
        for key, value in HOSTILE.items():
            db.put(key, value)
        for _ in range(entry_count):
            number = draw.randrange(4 * entry_count)
            if draw.random() < 0.05:
                db.delete(b"key%07d" % number)
            else:
                db.put(b"key%07d" % number, b"value %d" % number)
        db.flush()
        db.wait_until_settled()
        for number in range(20):
            db.put(b"fresh%02d" % number, b"in the log")


def put_and_flush(db: lsmkv.DB, start: int, count: int = 100) -> None:
    for number in range(start, start + count):
        db.put(b"%06d" % number, b"v" * 50)
    db.flush()


def page_in(text: str) -> contract.Page:
    """The data of a page."""
    found = re.search(r'id="data">(.*?)</script>', text, re.S)
    assert found
    data = gzip.decompress(base64.b64decode(found[1]))
    return msgspec.json.decode(data, type=contract.Page)
