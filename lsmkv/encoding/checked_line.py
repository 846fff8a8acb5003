"""A line of JSON with its checksum.

BACKUP and the generations of a published store are such lines.
Its bytes are the line, a newline, the XXH3-128 of the line in hexadecimal, and a newline.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from lsmkv.encoding.checksums import content_checksum
from lsmkv.errors import CorruptionError, UnsupportedFormatError

T = TypeVar("T", bound=msgspec.Struct)
_END_BYTES: Final = 34  # of the checksum and both newlines


class _Version(msgspec.Struct):
    """The field that says whether this release knows the others."""

    format: int


def encode_line(content: msgspec.Struct) -> bytes:
    line = msgspec.json.encode(content)
    return line + _end(line)


def decode_line(data: bytes, path: str, kind: type[T], known_format: int, what: str) -> T:
    """Decode a line of :func:`encode_line`; ``what`` names it in errors.

    Raises CorruptionError if they are damaged, UnsupportedFormatError for a format that is not known.
    """
    line, stored = data[:-_END_BYTES], data[-_END_BYTES:]
    expected = _end(line)
    if stored != expected:
        reason = f"checksum of a {what} fails"
        raise CorruptionError(path, len(line), reason, expected=expected, got=stored)
    try:
        version = msgspec.json.decode(line, type=_Version).format
        if version != known_format:
            reason = f"{what} format {version}; this release reads format {known_format}"
            raise UnsupportedFormatError(path, reason)
        return msgspec.json.decode(line, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptionError(path, 0, f"bad {what}: {error}") from error


def _end(line: bytes) -> bytes:
    return b"\n%b\n" % content_checksum(line).encode()
