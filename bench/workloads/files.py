"""Real data: the files of this Python by path, and absent keys near them."""

from __future__ import annotations

import json
import os
import random
import stat
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import xxhash

FILE_LIMIT: Final = 20_000  # the most files of a tree
HASHED_BYTES: Final = 1024 * 1024  # the part of each file that its hash covers
Entry = tuple[bytes, bytes]


def python_roots() -> list[tuple[bytes, str]]:
    """The directories of this Python's files, each with a name."""
    library = sysconfig.get_path("stdlib")
    roots = [(b"python/" + _relative(library, sys.base_prefix), library)]
    for name in ("purelib", "platlib"):
        packages = sysconfig.get_path(name)
        root = (b"site/" + _relative(packages, sys.prefix), packages)
        if root not in roots and os.path.isdir(packages):
            roots.append(root)
    return roots


def _relative(path: str, base: str) -> bytes:
    return os.fsencode(os.path.relpath(path, base))


def find_files(roots: Sequence[tuple[bytes, str]]) -> Iterator[tuple[bytes, str]]:
    """Key and path of each regular file below ``roots``, in fixed order."""
    others = {os.path.realpath(path) for _, path in roots}
    for name, root in roots:
        for directory, subdirectories, files in os.walk(root):
            # A root inside another one is walked separately.
            subdirectories[:] = sorted(
                each
                for each in subdirectories
                if os.path.realpath(os.path.join(directory, each)) not in others
            )
            inside = os.fsencode(os.path.relpath(directory, root))
            prefix = name + b"/" if inside == b"." else name + b"/" + inside + b"/"
            for file in sorted(files):
                yield prefix + os.fsencode(file), os.path.join(directory, file)


def describe_file(path: str) -> bytes | None:
    """A file's size, mode, times in ns and XXH3-128 of its first MiB, as JSON; None if unreadable."""
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            return None
        with open(path, "rb") as file:
            digest = xxhash.xxh3_128_hexdigest(file.read(HASHED_BYTES))
    except OSError:
        return None
    record = {
        "size": status.st_size,
        "mode": status.st_mode,
        "mtime": status.st_mtime_ns,
        "ctime": status.st_ctime_ns,
        "xxh3": digest,
    }
    return json.dumps(record, separators=(",", ":")).encode("ascii")


def read_tree(roots: Sequence[tuple[bytes, str]], limit: int = FILE_LIMIT) -> list[Entry]:
    """Entries for the first ``limit`` readable files below ``roots``."""
    described = ((key, describe_file(path)) for key, path in find_files(roots))
    entries = ((key, value) for key, value in described if value is not None)
    return list(islice(entries, limit))


def absent_keys(present: Sequence[bytes], count: int, seed: int) -> list[bytes]:
    """``count`` different absent keys that look like those of ``present``."""
    if not present:
        raise ValueError("no keys to make absent ones from")
    draw = random.Random(seed)
    taken = set(present)
    absent: list[bytes] = []
    while len(absent) < count:
        key = _near(draw.choice(present), draw)
        if key not in taken:
            taken.add(key)
            absent.append(key)
    return absent


def _near(key: bytes, draw: random.Random) -> bytes:
    """A mistyped path next to ``key`` in order."""
    letter = bytes([draw.choice(b"abcdefghijklmnopqrstuvwxyz0123456789_")])
    stem, dot, extension = key.rpartition(b".")
    if dot and b"/" not in extension and draw.random() < 0.5:
        return stem + letter + dot + extension
    return key + draw.choice([b"~", b".orig", b".bak", b".swp", b".tmp"]) + letter
