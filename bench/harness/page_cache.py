"""The files of a store in the page cache: how much of them is there, and out with it.

A page that some process has mapped (LMDB, LevelDB) stays when a file's pages are dropped, so this
process's own mappings are paged out first.  Whether pages have gone is always measured, because a
system need not obey: in a memory file system there is nowhere to go.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import time
from typing import Any, Final

from .process_meter import drop_pages, files_below, os_read_bytes

_MADV_PAGEOUT: Final = 21  # Linux 5.4
_PROBE_BYTES: Final = 1 << 20
_PAUSE_S: Final = 0.002

_libc: Any = ctypes.CDLL(None, use_errno=True)


def resident_bytes(directory: str) -> int:
    """The bytes of the files below ``directory`` that are in the page cache, in whole pages."""
    return sum(_resident(path) for path in files_below(directory))


def _resident(path: str) -> int:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                return 0
            # A private mapping that nobody touches: only a writable one has an address for ctypes.
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    except FileNotFoundError:  # an open store has removed it
        return 0
    start = ctypes.c_char.from_buffer(mapped)
    try:
        pages = (ctypes.c_ubyte * (-(-size // mmap.PAGESIZE)))()
        address = ctypes.c_void_p(ctypes.addressof(start))
        if _libc.mincore(address, ctypes.c_size_t(size), pages):
            raise OSError(ctypes.get_errno(), "mincore failed", path)
    finally:
        del start  # or the mapping could not be closed
        mapped.close()
    return sum(page & 1 for page in pages) * mmap.PAGESIZE


def drop(directory: str, tries: int = 20) -> int:
    """Drop the files below ``directory`` from the page cache, mapped ones too; the bytes that stay."""
    for turn in range(tries):
        if turn:
            time.sleep(_PAUSE_S)
        _page_out_mapped(directory)
        drop_pages(directory)
        left = resident_bytes(directory)
        if not left:
            break
    return left


def _page_out_mapped(directory: str) -> None:
    below = os.path.realpath(directory) + os.sep
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            place, *rest = line.rstrip("\n").split(maxsplit=5)
            if len(rest) == 5 and rest[4].startswith(below):
                start, end = (int(part, 16) for part in place.split("-"))
                _libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_PAGEOUT)


def why_not_dropped(directory: str) -> str | None:
    """Why files in ``directory`` cannot be dropped from the page cache, tried with one; or None."""
    folder = os.path.join(directory, f"page-cache-{os.getpid()}")
    path = os.path.join(folder, "probe")
    os.mkdir(folder)
    try:
        with open(path, "wb") as file:
            file.write(os.urandom(_PROBE_BYTES))
        if drop(folder):
            return f"pages of files in {directory} stay in memory when they are dropped"
        before = os_read_bytes()
        with open(path, "rb") as file:
            file.read()
        after = os_read_bytes()
        if before is None or after is None or after - before < _PROBE_BYTES:
            return f"the system does not count what is read from {directory}"
        return None
    except (OSError, AttributeError) as error:
        return f"the page cache cannot be examined here: {error}"
    finally:
        for remove, what in ((os.remove, path), (os.rmdir, folder)):
            with contextlib.suppress(OSError):
                remove(what)
