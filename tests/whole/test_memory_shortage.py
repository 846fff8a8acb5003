"""Too little memory: a clear error, and a store that works afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
import zstandard

import lsmkv
from gates import WAIT_S
from lsmkv.errors import Error
from lsmkv.sstable.block.codec import Compressor, Decompressor
from torture.fuzz.encoded import encode_block

PAYLOAD = encode_block([b"k"], [b"abc" * 100], [1], b"\1", has_versions=False)
SHORTAGE = "cannot compress: Allocation error : not enough memory"


class Failing:
    """Stands in for zstd's compressor and decompressor."""

    reason = SHORTAGE

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        pass

    def compress(self, _data: bytes) -> NoReturn:
        raise zstandard.ZstdError(self.reason)

    decompress = compress


# zstd needs some MiB to compress such a block at such a level.
DEMANDING: dict[str, Any] = {"block_size_bytes": 512 * 1024, "compression_level": 12}


def filled(path: Path) -> lsmkv.DB:
    db = lsmkv.open(path, read_compaction_rate_bytes=0, **DEMANDING)
    for number in range(500):
        db[b"%04d" % number] = b"value of a shape that repeats %d" % number * 100
    db.flush()
    return db


@pytest.mark.parametrize(
    ("reason", "error", "said"),
    [
        (SHORTAGE, MemoryError, "not enough memory"),
        ("cannot compress: something else", Error, r"321 bytes.*something else"),
    ],
)
def test_a_failure_to_compress_is_a_memory_error_or_one_of_the_store_s(
    monkeypatch: pytest.MonkeyPatch, reason: str, error: type[Exception], said: str
) -> None:
    monkeypatch.setattr(Failing, "reason", reason)
    monkeypatch.setattr(zstandard, "ZstdCompressor", Failing)
    with pytest.raises(error, match=said) as caught:
        Compressor(3, b"").compress_block(PAYLOAD)
    assert isinstance(caught.value.__cause__, zstandard.ZstdError)


def test_decompressing_without_memory_is_no_corruption(monkeypatch: pytest.MonkeyPatch) -> None:
    codec, packed = Compressor(3, b"").compress_block(PAYLOAD)
    monkeypatch.setattr(zstandard, "ZstdDecompressor", Failing)
    with pytest.raises(MemoryError, match="not enough memory"):
        Decompressor(b"").decompress_block(codec, packed, len(PAYLOAD), "p", 0)


def test_a_store_is_usable_after_a_compaction_that_had_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled(tmp_path / "store") as db:
        with monkeypatch.context() as patched:
            patched.setattr(zstandard, "ZstdCompressor", Failing)
            with pytest.raises(MemoryError):
                db.compact_range(force=True)
        db[b"more"] = b"1"
        db.compact_range(force=True)
        assert len(db) == 501
        assert db.verify().ok


_UNDER_LIMIT = """
import contextlib, mmap, resource, sys
import lsmkv
from lsmkv.errors import Error

MIB = 1 << 20
path, left_mib = sys.argv[1], int(sys.argv[2])
with lsmkv.open(path, block_size_bytes=512 * 1024, compression_level=12) as db:
    db.compact_range(force=True)
    pages = int(open("/proc/self/statm").read().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + (left_mib + 64) * MIB
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    left = mmap.mmap(-1, left_mib * MIB)  # the system gets it back at once, for any thread
    taken = []
    for size in (MIB, MIB >> 4):  # memory kept by malloc is taken as well
        with contextlib.suppress(MemoryError):
            while True:
                taken.append(bytearray(size))
    left.close()
    try:
        db.compact_range(force=True)
        said = "done"
    except (MemoryError, Error):
        said = "refused"
    except RuntimeError as error:
        assert "can't start new thread" in str(error), error
        said = "refused"
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    del taken
    db.compact_range(force=True)
    assert db.verify().ok
    assert len(db) == 500
print(said)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no telling what memory is used")
@pytest.mark.parametrize(
    ("left_mib", "outcomes"),
    [
        (1, ["done", "refused"]),  # threads' heaps may still have some
        pytest.param(4, ["done", "refused"], marks=pytest.mark.slow),
        (12, ["done", "refused"]),
        (400, ["done"]),
    ],
)
def test_a_compaction_under_a_limit_is_done_or_refused_and_then_done(
    tmp_path: Path, left_mib: int, outcomes: list[str]
) -> None:
    filled(tmp_path / "store").close()
    done = subprocess.run(
        [sys.executable, "-c", _UNDER_LIMIT, str(tmp_path / "store"), str(left_mib)],
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in outcomes
