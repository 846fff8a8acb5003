"""The part ``security``: hostile files, and other users with access to the directory.

Each check is a function that gets an empty directory and raises ``UnsoundError`` for a broken promise.
``SECURITY.md`` has the promises.
"""

from __future__ import annotations

import ast
import io
import os
import stat
import struct
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

import zstandard

import lsmkv
from lsmkv.cli.keys import Form
from lsmkv.cli.records import FORMATS, read_records
from lsmkv.errors import CorruptionError, UnsupportedFormatError
from lsmkv.salvage.repair import repair
from lsmkv.sstable.block.codec import Decompressor
from lsmkv.sstable.format import (
    CODEC_ZSTD,
    FOOTER_BYTES,
    decode_footer,
    decode_properties,
)
from lsmkv.storage.file_names import parse_file_name
from lsmkv.storage.storage import Storage
from lsmkv.tree.manifest import read_current, read_state
from torture.framework.part import Failure, Outcome, Part, Settings, UnsoundError, expect
from torture.fuzz.memory_files import ReadOnlyMemoryStorage
from torture.fuzz.sealing import NUMBER, log_of, seal_current, seal_footer
from torture.security import checks
from torture.security.planting import planted, planted_for_writers

# Permissions


def modes(directory: Path) -> None:
    """Only the owner may access files and new directories, whatever the umask."""
    for mask in (0o000, 0o022, 0o077):
        path = directory / f"store-{mask:o}"
        with checks.umask(mask):
            checks.store(path)
            repair(path, directory / f"output-{mask:o}")
            repair(path, in_place=True)
        for file in (path, directory / f"output-{mask:o}", *path.rglob("*")):
            mode = stat.S_IMODE(file.lstat().st_mode)
            wanted = 0o700 if file.is_dir() else 0o600
            expect(mode == wanted, f"{file} has mode {mode:o} under umask {mask:o}")


def chosen_modes(directory: Path) -> None:
    """Files get the mode ``file_mode``, whatever the umask."""
    with checks.umask(0o077):
        files = checks.store(directory / "store", file_mode=0o640)
    for file in files.values():
        mode = stat.S_IMODE(file.stat().st_mode)
        expect(mode == 0o640, f"{file} has mode {mode:o}, not 640 as chosen")


# Names in files


def names_in_current(directory: Path) -> None:
    """Even with a correct checksum CURRENT names no file elsewhere."""
    files = checks.store(directory / "store")
    outside = directory / "outside"
    outside.mkdir()
    manifest = files["manifest"].name
    (outside / manifest).write_bytes(files["manifest"].read_bytes())
    for name in (
        f"../outside/{manifest}",
        str(outside / manifest),
        f"./{manifest}",
        f"{manifest}/../../outside/{manifest}",
        f"{manifest}\0",
        f"{manifest}\n",
        "MANIFEST-٠٠٠٠٠٢",
        "MANIFEST-" + "9" * 40,
        "..",
        "",
    ):
        files["current"].write_bytes(seal_current(name.encode()))
        for doing, use in checks.uses(directory / "store"):
            with _recorded_opens() as opened:
                try:
                    use()
                except CorruptionError:
                    pass
                else:
                    expect(doing == "repair", f"{doing} accepted the name {name!r} in CURRENT")
            strange = [path for path in opened if not path.startswith(str(directory / "store"))]
            strange = [path for path in strange if not path.startswith(str(directory / "output"))]
            expect(set(strange) <= {str(directory)}, f"{doing} opened {strange}")
            checks.remove(directory / "output")


@contextmanager
def _recorded_opens() -> Iterator[list[str]]:
    opened: list[str] = []
    really = os.open

    def recorded(path: Any, *arguments: Any, **named: Any) -> int:
        opened.append(os.path.abspath(path))
        return really(path, *arguments, **named)

    with mock.patch.object(os, "open", recorded):
        yield opened


def names_in_the_manifest(_directory: Path) -> None:
    """The manifest names files by number, so no path leads outside."""
    good = (
        b'{"level":0,"run":1,"meta":{"number":%s,"size_bytes":900,"smallest":"","largest":"",'
        b'"smallest_seq":1,"largest_seq":1,"entry_count":1,"tombstone_count":0}}'
    )
    for number in (b'"../x"', b'"/etc/passwd"', b"-1", b"0", b"1.5", b"null", b"1" * 30):
        edits = (
            b'{"next_file":9,"log_number":%s}' % number,
            b'{"added":[%s],"next_file":99,"log_number":1}' % (good % number),
        )
        for edit in edits[number == b"0" :]:
            storage = ReadOnlyMemoryStorage({f"d/MANIFEST-{NUMBER:06}": log_of([edit], kind=1)})
            try:
                state = read_state(storage, "d", NUMBER)
            except (CorruptionError, UnsupportedFormatError):
                continue
            expect(state.log_number == 0, f"the manifest accepts {edit!r}")


# Lengths and frames


def bombs(_directory: Path) -> None:
    """Compressed blocks take no more memory than they state, within limits."""
    unpack = Decompressor(b"")
    zeros = zstandard.ZstdCompressor().compress(bytes(64 << 20))
    no_size = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 20))
    frames = {
        "a frame that states too little": (zeros, 100),
        "a frame that states no size": (no_size, 1 << 20),
        "an empty frame that states 2 GiB": (_frame_stating(1 << 31), 1 << 31),
        "an empty frame that states 2^63": (_frame_stating(1 << 63), (1 << 32) - 1),
        "a frame that holds more than it states": (_restated(zeros, 1000), 1000),
        "a frame of skipped bytes only": (b"\x50\x2a\x4d\x18\x04\0\0\0abcd", 4),
        "an empty input": (b"", 0),
    }
    for what, (frame, raw_length) in frames.items():
        stored = frame[4:]  # without the magic number
        peak = _peak_of(partial(unpack.decompress_block, CODEC_ZSTD, stored, raw_length, "p", 0))
        expect(peak < (1 << 20) + 2 * min(raw_length, 1 << 20), f"{what} takes {peak} bytes")


def _frame_stating(size: int) -> bytes:
    return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", size) + b"\x01\x00\x00"


def _restated(frame: bytes, size: int) -> bytes:
    """The frame with another size in the four bytes of its header."""
    return frame[:5] + struct.pack("<I", size) + frame[9:]


def _peak_of(
    call: Callable[[], object],
    errors: tuple[type[Exception], ...] = (CorruptionError, UnsupportedFormatError),
) -> int:
    """Peak memory of a call, which must raise a documented error."""
    tracemalloc.start()
    try:
        call()
    except errors:
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    raise UnsoundError("a malformed frame was accepted")


def packed_lines(_directory: Path) -> None:
    """A line that gzip packed to almost nothing is refused before it takes much memory."""
    packer = zlib.compressobj(9, wbits=31)
    mebibyte = b"a" * (1 << 20)
    head, block = (packer.compress(mebibyte) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    file = head + block * 1023
    for file_format in FORMATS:
        records = read_records(io.BytesIO(file), file_format, Form.TEXT)
        peak = _peak_of(partial(list, records), (ValueError,))
        expect(peak < 80 << 20, f"a line of 1 GiB in {len(file)} bytes of gzip takes {peak} bytes")


def sparse_files(directory: Path) -> None:
    """A huge sparse file takes no memory: lengths in files have limits."""
    size = 1 << 40
    lengths = [0, 0, 0, 0, 0]
    for section, what in enumerate(("dictionary", "filters", "index", "properties"), 1):
        lengths = [0, 0, 0, 0, 0]
        lengths[section] = size - FOOTER_BYTES
        footer = struct.pack("<QQQQQ", *lengths).ljust(FOOTER_BYTES, b"\0")
        sealed = seal_footer(footer, size)
        try:
            decode_footer(sealed, "p", size)
        except CorruptionError:
            continue
        raise UnsoundError(f"a footer with {what} of 1 TiB was accepted")
    files = checks.store(directory / "store")
    for kind in ("log", "manifest", "current"):
        data = files[kind].read_bytes()
        os.truncate(files[kind], size)
        for doing, use in checks.uses(directory / "store"):
            with checks.no_hang(f"{doing} with a {kind} of 1 TiB"), suppress(*checks.ERRORS):
                use()
            checks.remove(directory / "output")
        files[kind].write_bytes(data)


def deep_json(_directory: Path) -> None:
    """Deeply nested JSON is refused."""
    for depth in (1000, 100_000, 1_000_000):
        for opening in (b"[", b'{"a":'):
            nested = opening * depth
            for data in (nested, b'{"more":' + nested):
                for call in (_properties_of, _state_of):
                    try:
                        call(data)
                    except (CorruptionError, UnsupportedFormatError):
                        continue
                    raise UnsoundError(f"JSON of depth {depth} was accepted")


def _properties_of(data: bytes) -> None:
    decode_properties(data, "p", 0)


def _state_of(data: bytes) -> None:
    storage = ReadOnlyMemoryStorage({f"d/MANIFEST-{NUMBER:06}": log_of([data], kind=1)})
    read_state(storage, "d", NUMBER)


# Messages and code


def messages(directory: Path) -> None:
    """Errors about damage show neither values nor long keys."""
    path = directory / "store"
    files = checks.store(path)
    long_key = b"k" * 60_000
    with lsmkv.open(path) as db:
        db.put(long_key, checks.SECRET)
        db.flush()
    for kind in checks.KINDS:
        for file in path.iterdir():
            if (parse_file_name(file.name) or (file.name.lower(), 0))[0] != kind:
                continue
            data = file.read_bytes()
            for at in range(0, len(data), 1 + len(data) // 60):
                file.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
                for text in _messages_of(path):
                    expect(
                        checks.SECRET.decode() not in text, f"an error shows a value: {text[:200]}"
                    )
                    expect(len(text) < 2000, f"an error message has {len(text)} characters")
            file.write_bytes(data)
    expect(files["table"].exists(), "the store is gone")


def _messages_of(path: Path) -> list[str]:
    said = []
    try:
        with lsmkv.open(path, read_only=True) as db:
            said += [str(problem) for problem in db.verify().problems]
            dict(db.items())
    except checks.ERRORS as error:
        said.append(str(error))
    return said


_FORBIDDEN: Final = {
    *("pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"),
    *("yaml", "jsonpickle", "ctypes", "cffi", "subprocess", "importlib", "runpy", "code"),
}
_ALLOWED: Final = {
    ("runtime.py", "importlib"),  # imports modules that the source names, on first use
    ("filters/__init__.py", "importlib"),  # the same
    ("cli/bench.py", "importlib"),  # the harness, which the source names
    (
        "background/malloc_trim.py",
        "ctypes",
    ),  # calls one function of the C library, without data from files
    (
        "background/process/parent.py",
        "subprocess",
    ),  # starts this interpreter with a module of this package
    ("typed/pickled.py", "pickle"),  # for programs that ask for it by name; its docstring warns
}
_FORBIDDEN_CALLS: Final = {"eval", "exec", "compile", "__import__"}


def nothing_is_run(_directory: Path) -> None:
    """No module of the package makes code or arbitrary objects from bytes."""
    broken = forbidden_uses(Path(lsmkv.__file__).parent)
    expect(not broken, f"{broken}")


def forbidden_uses(package: Path) -> list[str]:
    """Imports and calls in ``package`` that could run code from a file."""
    found = []
    for path in sorted(package.rglob("*.py")):
        if path.parent.name == "pyinstaller":  # run by PyInstaller alone
            continue
        place = path.relative_to(package).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                names = ["eval"] if node.func.id in _FORBIDDEN_CALLS else []
            found_names = {name.partition(".")[0] for name in names}
            found_names -= {name for file, name in _ALLOWED if file == place}
            if found_names & (_FORBIDDEN | {"eval"}):
                found.append(f"{place}: {ast.unparse(node)[:60]}")
    return found


def names_of_locks(directory: Path) -> None:
    """Text in the lock file only appears in a short message."""
    path = directory / "store"
    files = checks.store(path)
    for said in (b"", b"9" * 5000, b"-1", b"\xff\xfe", "٣".encode(), b"1 2 3"):
        files["lock"].write_bytes(said)
        held = Storage().lock(str(files["lock"]))
        files["lock"].write_bytes(said)
        try:
            lsmkv.open(path)
        except lsmkv.LockedError as error:
            expect(len(str(error)) < 1000, "the error message is too long")
        else:
            raise UnsoundError("a locked store was opened")
        finally:
            held.release()
    expect(read_current(Storage(), str(path)) > 0, "the store is gone")


CHECKS: Final[tuple[Callable[[Path], None], ...]] = (
    modes,
    chosen_modes,
    names_in_current,
    names_in_the_manifest,
    planted,
    planted_for_writers,
    bombs,
    packed_lines,
    sparse_files,
    deep_json,
    messages,
    nothing_is_run,
    names_of_locks,
)


def run(settings: Settings) -> Outcome:
    """Make every check once; all scales do the same."""
    outcome = Outcome()
    deadline = time.monotonic() + settings.time_limit_s
    for check in CHECKS:
        name = check.__name__
        if settings.replay not in (None, name):
            continue
        if time.monotonic() > deadline:
            outcome.notes.append(f"no time for {name}")
            continue
        directory = settings.directory / name
        directory.mkdir(parents=True)
        try:
            check(directory)
        except UnsoundError as error:
            outcome.failures.append(Failure(f"{name}: {error}", name))
        except Exception as error:
            outcome.failures.append(Failure(f"{name}: {type(error).__name__}: {error}", name))
        outcome.counts["checks"] += 1
    if os.geteuid() == 0:
        outcome.notes.append(
            "run as root, who may access everything: file modes are checked, but not their effect"
        )
    return outcome


PART: Final = Part(
    "security",
    "Only the owner may access the files. Nothing that a file contains leads outside its directory, "
    "takes memory or time out of proportion, or runs as code.",
    run,
)
