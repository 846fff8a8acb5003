"""Read calls counted from outside: by file, of threads and children, and as lsmkv counts them itself."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

import lsmkv
from bench import __main__ as bench
from bench.harness.read_counter import WAYS, FileReads, Way, count_reads, parse_strace

NEEDED = {"preload": "cc", "strace": "strace"}

CALLS = """
import mmap, os, subprocess, sys, threading
path = sys.argv[1]
file = os.open(path, os.O_RDONLY)
def ask():
    for at in range(50):
        os.pread(file, 10, at)
threads = [threading.Thread(target=ask) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
os.preadv(file, [bytearray(5)], 0)
os.readv(file, [bytearray(7)])
os.read(file, 3)
child = os.fork()
if not child:
    os.pread(file, 9, 0)
    os.kill(os.getpid(), 9)
os.waitpid(child, 0)
mapped = mmap.mmap(file, 0, prot=mmap.PROT_READ)
again = "import os, sys; os.read(os.open(sys.argv[1], os.O_RDONLY), 11)"
subprocess.run([sys.executable, "-c", again, path])
"""

COPIES = """
import os, sys
path, to = sys.argv[1], os.open(sys.argv[2], os.O_RDWR | os.O_CREAT)
file = os.open(path, os.O_RDONLY)
os.sendfile(to, file, 0, 1000)
os.copy_file_range(file, to, 2000, 0, 0)
"""

RING = """
import ctypes, os
ring = ctypes.CDLL(None).syscall(425, 4, ctypes.create_string_buffer(200))
assert ring >= 0
os.close(ring)
"""

LOOKUPS = """
import sys, lsmkv
with lsmkv.open(sys.argv[1], read_only=True, block_cache_size_bytes=0) as db:
    for number in range(int(sys.argv[2])):
        db.get(b"%06d" % number)
"""


def counted(way: Way, *command: str) -> tuple[int, tuple[FileReads, ...]]:
    if shutil.which(NEEDED[way]) is None:
        pytest.skip(f"no {NEEDED[way]} here")
    status, reads = count_reads([sys.executable, *command], way)
    assert reads.programs
    return status, reads.files


@pytest.mark.parametrize("way", WAYS)
def test_calls_of_threads_and_children_are_counted_by_file(way: Way, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(5000))
    status, files = counted(way, "-c", CALLS, str(path))
    assert status == 0
    (found,) = [file for file in files if file.path == os.path.realpath(path)]
    # Four threads, three other calls, a killed child, and a program that the last line starts.
    assert (found.calls, found.bytes) == (4 * 50 + 3 + 1 + 1, 4 * 500 + 15 + 9 + 11)
    assert (found.maps, found.mapped_bytes) == (1, 5000)


@pytest.mark.parametrize("way", WAYS)
def test_copies_within_the_kernel_count_for_their_source(way: Way, tmp_path: Path) -> None:
    path, to = tmp_path / "data", tmp_path / "copy"
    path.write_bytes(bytes(5000))
    _, files = counted(way, "-c", COPIES, str(path), str(to))
    (found,) = [file for file in files if file.path == os.path.realpath(path)]
    assert (found.calls, found.bytes) == (2, 3000)
    assert os.path.realpath(to) not in [file.path for file in files]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("script", "has_ring"), [(RING, True), ("pass", False)])
def test_a_ring_is_told_because_its_reads_are_not_seen(
    way: Way, script: str, has_ring: bool, tmp_path: Path
) -> None:
    if shutil.which(NEEDED[way]) is None:
        pytest.skip(f"no {NEEDED[way]} here")
    status, reads = count_reads([sys.executable, "-c", script], way)
    if status:
        pytest.skip("this kernel, or its settings, has no io_uring")
    assert reads.has_ring == has_ring


@pytest.mark.parametrize("way", ["preload", pytest.param("strace", marks=pytest.mark.slow)])
def test_lookups_of_a_store_read_what_it_counts_itself(way: Way, tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    with lsmkv.open(path, error_rate=0.2, compression="none") as db:
        db.update({b"%06d" % number: bytes(100) for number in range(0, 3000, 2)})
        db.flush()
    with lsmkv.open(path, read_only=True, block_cache_size_bytes=0) as db:
        before = db.stats()
        for number in range(3000):
            db.get(b"%06d" % number)
        expected = db.stats() - before

    def calls(lookups: int) -> tuple[int, int]:
        _, files = counted(way, "-c", LOOKUPS, path, str(lookups))
        tables = [file for file in files if file.path.startswith(os.path.realpath(path))]
        return sum(file.calls for file in tables), sum(file.bytes for file in tables)

    none, all_of_them = calls(0), calls(3000)
    opened = expected.filter_reads + expected.index_reads
    opened_bytes = expected.filter_read_bytes + expected.index_read_bytes
    assert all_of_them[0] - none[0] == expected.block_reads + opened
    assert all_of_them[1] - none[1] == expected.block_read_bytes + opened_bytes
    assert expected.block_reads > 1500


def test_interrupted_lines_of_strace_are_joined() -> None:
    reads = parse_strace(
        [
            '7  execve("/bin/x", [], 0x7ffd /* 3 vars */) = 0',
            '7  pread64(3</data/a>, ""..., 4096, 0) = 4096',
            "8  read(4</data/b>,  <unfinished ...>",
            '7  read(3</data/a>, ""..., 4096) = 12',
            '8  <... read resumed>""..., 100) = 100',
            '7  read(5<pipe:[123]>, "", 10) = -1 EAGAIN (Resource temporarily unavailable)',
            "7  mmap(NULL, 8192, PROT_READ, MAP_SHARED, 3</data/a>, 0) = 0x7f00",
            "7  mmap(NULL, 8192, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f00",
        ]
    )
    assert reads.programs == 1
    assert reads.files == (FileReads("/data/a", 2, 4108, 1, 8192), FileReads("/data/b", 1, 100))


def test_the_command_writes_the_counts_and_exits_as_the_counted_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no cc here")
    (tmp_path / "data").write_bytes(b"12345")
    script = f"import os, sys; os.read(os.open({str(tmp_path / 'data')!r}, 0), 9); sys.exit(7)"
    out = str(tmp_path / "counts.json")
    given = ["count-reads", "--under", str(tmp_path), "--out", out, "--"]
    with pytest.raises(SystemExit) as ended:
        bench.main([*given, sys.executable, "-c", script])
    assert ended.value.code == 7
    (file,) = json.loads(Path(out).read_text())["files"]
    assert (file["calls"], file["bytes"]) == (1, 5)
    assert "data" in capfd.readouterr().err


def test_a_folder_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no cc here")
    for folder, told in ((tmp_path / "nowhere", "there is no folder"), (tmp_path, "No file below")):
        with pytest.raises(SystemExit) as ended:
            bench.main(["count-reads", "--under", str(folder), "--", "true"])
        assert ended.value.code == 0
        assert told in capsys.readouterr().err
