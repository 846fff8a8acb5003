"""Lines of a file or a pipe, unpacked if they are gzip.

A line takes memory before anything can tell what is in it, and gzip packs a thousand bytes into one.
So the bytes of a record are counted while its lines are read: they are no more than the longest key and
value take, and of a long record no more than a hundred times its packed bytes.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final, Protocol, cast

from lsmkv.errors import untraced

_GZIP: Final = b"\x1f\x8b\x08"  # gzip data begin so, and no UTF-8 text does
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS  # how zlib is told that data are gzip
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_PARQUET: Final = b"PAR1\x15"  # with the first field of a page's header
_BUFFER_BYTES: Final = 64 * 1024
_PIECE_BYTES: Final = 1024 * 1024  # of a long line: its record is checked after each
_MOST_TIMES: Final = 100  # as many bytes as packed ones, in a long record
ANY_TIMES_BYTES: Final = 64 * 1024 * 1024
"""A record of up to so many bytes may have any number of times its packed bytes."""


class _Buffered(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class _Unpacked(io.RawIOBase):
    """Unpacked gzip data; ValueError at damage, after all before it.  ``taken`` counts packed bytes."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._packed = cast(_Buffered, rest)
        self._unpacker = zlib.decompressobj(_GZIP_WINDOW)
        self._waiting = head
        self.taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # narrower
        while True:
            if self._unpacker.eof and not self._begin_member():
                return 0
            data = self._unpack(len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)
            if not self._unpacker.eof and not self._waiting and not self._fill():
                raise ValueError("the gzip data are cut short")

    def _unpack(self, most: int) -> bytes:
        """The next bytes, up to ``most``; none if more packed ones are needed."""
        size, damage = len(self._waiting), None
        while True:
            unpacker = self._unpacker.copy()  # after an error nothing can be read from one
            try:
                data = unpacker.decompress(self._waiting[:size], most)
            except zlib.error as error:
                damage, data = untraced(error), b""
            else:
                if data or size or damage is None:
                    rest = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
                    self.taken += size - len(rest)
                    self._unpacker, self._waiting = unpacker, rest + self._waiting[size:]
                    return data
            if size == 0:
                raise ValueError(f"the gzip data are damaged, here or before: {damage}") from damage
            size //= 2  # the damage is further on, or in the one byte that is left

    def _begin_member(self) -> bool:
        """Go on to gzip data behind those that ended, over zeros; False if there are none."""
        while not (rest := self._waiting.lstrip(b"\0")):
            if not self._fill():
                return False
        self._unpacker, self._waiting = zlib.decompressobj(_GZIP_WINDOW), rest
        return True

    def _fill(self) -> bool:
        self._waiting = self._packed.read1(_BUFFER_BYTES)
        return bool(self._waiting)


class Lines:
    """The lines of ``stream``, with their ends, without byte order mark.

    ``is_text`` refuses UTF-16.  ``longest`` limits the bytes of a record's lines: :meth:`begin_record`
    says where one begins.  ValueError for UTF-16, for a record that is too long (before all of it is in
    memory), and for damaged gzip data (after all that comes before).  It names the line.
    """

    def __init__(self, stream: BinaryIO, *, longest: int, is_text: bool = True) -> None:
        self._head = stream.read(1)  # of the first line
        if self._head == _GZIP[:1]:
            self._head += stream.readline(2)
        self._stream = stream
        self._unpacked: _Unpacked | None = None
        if self._head == _GZIP:
            self._unpacked = _Unpacked(self._head, stream)
            self._stream = io.BufferedReader(self._unpacked, _BUFFER_BYTES)
            self._head = b""
        self._longest = longest
        self._unchecked_bytes = min(longest, ANY_TIMES_BYTES)
        self._is_text = is_text
        self._number = 0  # of the line that was read last
        self.begin_record()

    def begin_record(self) -> None:
        """The next line begins a record."""
        self._first = self._number + 1
        self._size_bytes = 0
        self._taken_before = 0 if self._unpacked is None else self._unpacked.taken

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        self._number += 1
        line = self._piece()
        if len(line) == _PIECE_BYTES:
            pieces = [line]
            while len(pieces[-1]) == _PIECE_BYTES and not pieces[-1].endswith(b"\n"):
                pieces.append(self._piece())
            line = b"".join(pieces)
        if not line:
            raise StopIteration
        if self._number == 1:
            if self._is_text and line.startswith(_UTF_16):
                raise ValueError(
                    "line 1: it is UTF-16; make it UTF-8, with: iconv -f UTF-16 -t UTF-8 FILE"
                )
            if line.startswith(_PARQUET):
                raise ValueError("line 1: it is Parquet; write it as CSV or JSON lines first")
            return line.removeprefix(_BYTE_ORDER_MARK)
        return line

    def _piece(self) -> bytes:
        """The present line, or the next part of a long one."""
        try:
            if self._head:
                piece, self._head = self._head, b""
                if not piece.endswith(b"\n"):
                    piece += self._stream.readline(_PIECE_BYTES - len(piece))
            else:
                piece = self._stream.readline(_PIECE_BYTES)
        except ValueError as error:
            raise ValueError(f"line {self._number}: {error}") from error
        self._size_bytes += len(piece)
        if self._size_bytes > self._unchecked_bytes:
            self._check_size()
        return piece

    def _check_size(self) -> None:
        if self._size_bytes > self._longest:
            raise ValueError(f"line {self._first}: it has more than {self._longest:,} bytes")
        if self._unpacked is not None:
            taken = self._unpacked.taken - self._taken_before
            if self._size_bytes > _MOST_TIMES * taken:
                raise ValueError(
                    f"line {self._first}: more than {ANY_TIMES_BYTES:,} bytes of it are packed into less "
                    f"than 1/{_MOST_TIMES}; if you trust it, unpack it with gunzip first"
                )
