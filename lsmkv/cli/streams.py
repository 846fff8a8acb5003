"""Lines of a file or a pipe, unpacked if they are gzip."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import BinaryIO, Final, Protocol, cast

from lsmkv.encoding.entries import MAX_KEY_BYTES, MAX_VALUE_BYTES

_GZIP: Final = b"\x1f\x8b\x08"  # gzip data begin so, and no UTF-8 text does
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
# JSON may write a byte as six characters (\u0001).  The rest is for names, quotes and spaces.
LONGEST_LINE_BYTES: Final = 6 * (MAX_KEY_BYTES + MAX_VALUE_BYTES) + 64 * 1024
_BUFFER_BYTES: Final = 64 * 1024


class _Buffered(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class _Rejoined(io.RawIOBase):
    """A stream with its first bytes, already read, put back."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = cast(_Buffered, rest)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # narrower
        data = self._head or self._rest.read1(len(buffer))
        count = min(len(data), len(buffer))
        buffer[:count] = data[:count]
        self._head = self._head[count:]
        return count


def read_lines(
    stream: BinaryIO, *, is_text: bool = True, longest: int = LONGEST_LINE_BYTES
) -> Iterator[bytes]:
    """The lines of ``stream``, with their ends, without byte order mark.

    ``is_text`` refuses UTF-16.  ValueError for that, for a line over ``longest`` bytes (before all of
    it is in memory), and for damaged gzip data.
    """
    head = stream.read(1)
    if head == _GZIP[:1]:
        head += stream.read(2)
    plain = io.BufferedReader(_Rejoined(head, stream), _BUFFER_BYTES)
    if head != _GZIP:
        yield from _lines(plain, is_text, longest)
        return
    try:
        unpacked = cast(io.RawIOBase, gzip.GzipFile(fileobj=plain, mode="rb"))
        yield from _lines(io.BufferedReader(unpacked, _BUFFER_BYTES), is_text, longest)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"the gzip data are damaged or cut short: {error}") from error


def _lines(stream: BinaryIO, is_text: bool, longest: int) -> Iterator[bytes]:
    first = stream.readline(longest + 1)
    if is_text and first.startswith(_UTF_16):
        raise ValueError("line 1: it is UTF-16; make it UTF-8, with: iconv -f UTF-16 -t UTF-8 FILE")
    rest = iter(partial(stream.readline, longest + 1), b"")
    for number, line in enumerate(chain((first,) if first else (), rest), 1):
        if len(line) > longest:
            raise ValueError(f"line {number}: it has more than {longest:,} bytes")
        yield line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
