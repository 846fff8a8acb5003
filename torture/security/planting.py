"""Checks of the part ``security``: links, pipes and the like in place of a store's files."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import lsmkv
from lsmkv.salvage.repair import repair
from lsmkv.storage.file_names import CURRENT, ERASED, UNFINISHED, parse_file_name
from torture.corruption.samples import SMALL
from torture.framework.part import UnsoundError, expect
from torture.security import checks


def planted(directory: Path) -> None:
    """Links, pipes, sockets and directories in place of files are refused; links may be read."""
    outside = directory / "outside"
    for kind in checks.KINDS:
        for what in ("link", "dangling link", "pipe", "socket", "directory"):
            path = directory / "store"
            files = checks.store(path)
            outside.write_bytes(files[kind].read_bytes())
            before = outside.read_bytes()
            files[kind].unlink()
            _plant(what, files[kind], outside)
            for doing, use in checks.uses(path):
                with checks.no_hang(f"{doing} with a {what} as {kind}"):
                    try:
                        use()
                    except checks.ERRORS as error:
                        expect(str(path) in str(error), f"the error names no file: {error}")
                    else:
                        may_read = kind == "lock" or what == "link"
                        may = doing == "repair" or (doing == "reading" and may_read)
                        expect(may, f"{doing} accepted a {what} as {kind}")
                checks.remove(directory / "output")
            expect(outside.read_bytes() == before, f"a {what} as {kind}: the file was changed")
            expect(not (directory / "nowhere").exists(), f"a {what} as {kind}: a file was made")
            checks.remove(path)


def _plant(what: str, at: Path, outside: Path) -> None:
    if what == "link":
        at.symlink_to(outside)
    elif what == "dangling link":
        at.symlink_to(outside.with_name("nowhere"))
    elif what == "pipe":
        os.mkfifo(at)
    elif what == "directory":
        at.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as made, _inside(at.parent):
            made.bind(at.name)  # the path of a socket has at most 107 bytes


@contextmanager
def _inside(path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


def planted_for_writers(directory: Path) -> None:
    """Links in place of a writer's new files are never followed."""
    outside = directory / "outside"
    outside.write_bytes(b"whole")
    path = directory / "store"
    checks.store(path)
    highest = max((parse_file_name(file.name) or ("", 0))[1] for file in path.iterdir())
    names = [CURRENT + UNFINISHED, ERASED + UNFINISHED, ERASED]
    for number in range(highest + 1, highest + 4):
        names += [f"{number:06}.sst", f"{number:06}.log", f"MANIFEST-{number:06}"]
    for name in names:
        (path / name).symlink_to(outside)
    with suppress(*checks.ERRORS, lsmkv.BackgroundError), lsmkv.open(path, SMALL) as db:
        db.put(b"k", b"v", sync=True)
        db.flush()
    expect(outside.read_bytes() == b"whole", "a writer followed a link in place of a new file")
    (path / "lost").symlink_to(directory / "elsewhere")
    (directory / "elsewhere").mkdir()
    try:
        repair(path, in_place=True)
    except OSError as error:
        expect("lost" in str(error), f"the error names no file: {error}")
    else:
        raise UnsoundError("repair in place accepted a link as its folder of lost files")
    expect(not list((directory / "elsewhere").iterdir()), "repair wrote through a link")
