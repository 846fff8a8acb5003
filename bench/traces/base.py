"""Operations of a trace, and the interface of its forms.

A form is a subclass of :class:`TraceFormat` that makes an operation of a line.  Files may be packed by
gzip or zstd, whatever their names.
"""

from __future__ import annotations

import gzip
import io
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, ClassVar, Final, Literal, cast

import zstandard

AUTO: Final = "auto"
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_GUESSED_LINES: Final = 1000
_SHOWN_BYTES: Final = 60

Kind = Literal["put", "delete", "delete-range", "get", "multi-get", "scan", "time"]


@dataclass(frozen=True, slots=True)
class Operation:
    """What a program asked a store to do.

    Attributes:
        keys: one key; of ``multi-get`` several; of ranges the first key, and the first key above if the
            trace has it.
        value_bytes, ttl_s: of a put; 0 s: it stays.
        limit: of a range, the most entries; None: all.
        is_reverse: a scan goes down from its key.
        time_s: when it was, if the trace says it; ``time`` says nothing else.
    """

    kind: Kind
    keys: tuple[bytes, ...] = ()
    value_bytes: int = 0
    ttl_s: int = 0
    limit: int | None = None
    is_reverse: bool = False
    time_s: int | None = None


class TraceFormat(ABC):
    """A form of traces.

    Attributes:
        name: what ``--format`` calls it.
        form: its lines, for messages.
        takes_any_word: ``auto`` tries it after all others.
    """

    name: ClassVar[str]
    form: ClassVar[str]
    takes_any_word: ClassVar[bool] = False

    @abstractmethod
    def operation(self, line: bytes) -> Operation | None:
        """The operation of a line without its end, or None; ValueError, LookupError: it is none."""

    def joined(self, operations: Iterator[Operation]) -> Iterator[Operation]:
        """Operations of several lines; by default each has one line."""
        return operations


_FORMATS: dict[str, TraceFormat] = {}


def register(trace_format: TraceFormat) -> None:
    """Add a form; ValueError: another has that name."""
    if trace_format.name in (AUTO, *_FORMATS):
        raise ValueError(f"trace format {trace_format.name!r} is registered already")
    _FORMATS[trace_format.name] = trace_format


def formats() -> list[TraceFormat]:
    return list(_FORMATS.values())


def format_named(name: str, path: str) -> TraceFormat:
    """The form of that name; for ``auto`` the first that takes the first lines of a file.

    They are asked in the order of registration, plain lines last: these take nearly anything.
    """
    if name != AUTO and name not in _FORMATS:
        raise ValueError(f"trace format {name!r}: must be one of {AUTO}, {', '.join(_FORMATS)}")
    if name != AUTO:
        return _FORMATS[name]
    first = list(islice(_lines(path), _GUESSED_LINES))
    for trace_format in sorted(formats(), key=lambda each: each.takes_any_word):
        if _takes(trace_format, first):
            return trace_format
    raise ValueError(f"{path}: no trace of {', '.join(_FORMATS)}: say its --format")


def _takes(trace_format: TraceFormat, lines: list[bytes]) -> bool:
    """Whether each line has the form, and any is an operation."""
    try:
        found = list(map(trace_format.operation, lines))
    except (ValueError, LookupError):
        return False
    return any(operation is not None for operation in found)


def read_trace(path: str, trace_format: TraceFormat) -> Iterator[Operation]:
    """The operations of a file, in their order.

    ValueError names file and line of what is no operation; OSError: the file cannot be read.
    """

    def each() -> Iterator[Operation]:
        for number, line in enumerate(_lines(path), 1):
            try:
                operation = trace_format.operation(line)
            except (ValueError, LookupError):
                shown = line[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
                raise ValueError(
                    f"{path}, line {number}: not of the format {trace_format.name}, which has "
                    f"{trace_format.form}: {shown}"
                ) from None
            if operation is not None:
                yield operation

    return trace_format.joined(each())


def _lines(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        try:
            for line in _unpacked(file):
                yield line.rstrip(b"\r\n")
        except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
            raise ValueError(
                f"{path}: its packed data are damaged or cut short: {error}"
            ) from error


def _unpacked(file: io.BufferedReader) -> BinaryIO:
    head = file.peek(len(_ZSTD))
    if head.startswith(_GZIP):
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    if head.startswith(_ZSTD):
        reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return io.BufferedReader(cast(io.RawIOBase, reader))
    return file
