"""Block accesses of a store, in libCacheSim's form ``oracleGeneral``.

https://github.com/1a1a11a/libCacheSim has readers for it, whose sources describe a record: 24 bytes,
little-endian, of a time (32 bits), an identity (64), a size (32), and the number of the record that has
this identity next, -1 if none has (64).

The store has no block cache meanwhile, so that each access is a read.  Scans read several blocks at once
past the cache; these are no accesses of a cache.
"""

from __future__ import annotations

import os
import struct
from typing import Final

from lsmkv.storage.files import RandomFile
from lsmkv.storage.storage import ReadKind, Storage

_RECORD: Final = struct.Struct("<IQIq")
_OFFSET_BITS: Final = 36

Access = tuple[int, int]
"""The identity of a block, which is its table and its place there, and its size."""


class BlockTrace(Storage):
    """A store's files, whose reads of single blocks it notes in ``accesses``."""

    def __init__(self) -> None:
        super().__init__()
        self.accesses: list[Access] = []

    def _random_file(self, path: str, descriptor: int, size: int, direct: bool) -> RandomFile:
        file = _Noting(path, descriptor, size, self.stats, direct)
        number = os.path.basename(path).partition(".")[0]
        file.table = int(number) if number.isdecimal() else 0
        file.accesses = self.accesses
        return file


class _Noting(RandomFile):
    table: int
    accesses: list[Access]

    def pread(self, offset: int, length: int, kind: ReadKind, count: int = 1) -> bytes:
        if kind is ReadKind.DATA and count == 1:
            self.accesses.append((self.table << _OFFSET_BITS | offset, length))
        return super().pread(offset, length, kind, count)


def write_oracle_general(path: str, accesses: list[Access]) -> None:
    """Write the accesses, with their numbers as times."""
    following: dict[int, int] = {}
    records = []
    for number in reversed(range(len(accesses))):
        identity, size_bytes = accesses[number]
        records.append(_RECORD.pack(number, identity, size_bytes, following.get(identity, -1)))
        following[identity] = number
    with open(path, "wb") as file:
        file.write(b"".join(reversed(records)))


def read_oracle_general(path: str) -> list[Access]:
    """Identities and sizes of a file that :func:`write_oracle_general` wrote."""
    with open(path, "rb") as file:
        return [(identity, size) for _, identity, size, _ in _RECORD.iter_unpack(file.read())]
