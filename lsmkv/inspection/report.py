"""Base of all reports: frozen dataclasses that turn into JSON or text."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol, Self

from lsmkv.errors import CorruptionError
from lsmkv.html import Row, table

Progress = Callable[[int, int], object]  # takes how much is done, and of how much

_BYTES_TYPES: Final = ("bytes", "bytes | None", bytes, bytes | None)  # as text or evaluated
_MOST_ITEMS: Final = 40
_LONGEST: Final = 500
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


class Report:
    """Base of frozen dataclasses that report something.

    ``derived`` names the properties that ``as_dict`` adds to the fields.
    """

    __slots__ = ()
    derived: ClassVar[tuple[str, ...]] = ()

    def as_dict(self) -> dict[str, object]:
        """JSON-safe values by name.

        Bytes are hexadecimal text under their name followed by ``_hex``; nested reports are
        dictionaries, and tuples are lists.
        """
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # subclasses are dataclasses
        of_bytes = {field.name for field in fields if field.type in _BYTES_TYPES}
        return {
            f"{name}_hex" if name in of_bytes else name: _json_safe(value)
            for name, value in self.values().items()
        }

    def values(self) -> dict[str, object]:
        """The fields and the derived properties, by name."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        names = [*(field.name for field in fields), *self.derived]
        return {name: getattr(self, name) for name in names}

    def text(self) -> str:
        """The report as text, as ``print`` shows it."""
        return str(self)

    def _repr_html_(self) -> str:
        """Its attributes; a tuple has a row for each item."""
        rows: list[Row] = []
        for name, value in self.values().items():
            items = value if isinstance(value, tuple) else (value,)
            shown = [_plain(item) for item in items[:_MOST_ITEMS]]
            if len(items) > _MOST_ITEMS:
                shown.append(f"… and {len(items) - _MOST_ITEMS:,} more")
            rows += [(name if at == 0 else "", item) for at, item in enumerate(shown)]
        return table(f"lsmkv {type(self).__name__}", rows)


@dataclass(frozen=True, slots=True)
class Problem(Report):
    """Damage on disk; ``offset`` is None if no place can be named."""

    path: str
    offset: int | None
    reason: str

    @classmethod
    def of(cls, error: Exception, path: str, offset: int | None = None) -> Self:
        """The problem behind an error of reading ``path``."""
        if isinstance(error, CorruptionError):
            reason = error.reason
            if error.expected is not None or error.got is not None:
                reason += f" (expected {error.expected!r}, got {error.got!r})"
            return cls(error.path, error.offset, reason)
        return cls(path, offset, str(error))

    def __str__(self) -> str:
        place = "" if self.offset is None else f" at offset {self.offset}"
        return f"{self.path}{place}: {self.reason}"


class _Sized(Protocol):
    """One table, or several."""

    @property
    def entry_count(self) -> int: ...
    @property
    def block_count(self) -> int: ...
    @property
    def index_bytes(self) -> int: ...
    @property
    def filter_bytes(self) -> int: ...


class IndexAndFilters(Report):
    """Base of reports that tell ``index_bytes`` and ``filter_bytes`` of tables.

    Each entry counts as a key, deletions and old versions too.
    """

    __slots__ = ()
    derived: ClassVar[tuple[str, ...]] = (
        "index_bytes_per_key",
        "filter_bytes_per_key",
        "index_bytes_per_block",
        "filter_bytes_per_block",
        "index_bits_per_block",
        "filter_bits_per_block",
    )

    @property
    def index_bytes_per_key(self: _Sized) -> float:
        """Bytes of the index for each key."""
        return self.index_bytes / max(1, self.entry_count)

    @property
    def filter_bytes_per_key(self: _Sized) -> float:
        """Bytes of filters for each key."""
        return self.filter_bytes / max(1, self.entry_count)

    @property
    def index_bytes_per_block(self: _Sized) -> float:
        """Bytes of the index for each block."""
        return self.index_bytes / max(1, self.block_count)

    @property
    def filter_bytes_per_block(self: _Sized) -> float:
        """Bytes of filters for each block."""
        return self.filter_bytes / max(1, self.block_count)

    @property
    def index_bits_per_block(self: _Sized) -> float:
        """Bits of the index for each block."""
        return 8 * self.index_bytes / max(1, self.block_count)

    @property
    def filter_bits_per_block(self: _Sized) -> float:
        """Bits of filters for each block."""
        return 8 * self.filter_bytes / max(1, self.block_count)

    def index_and_filters(self: _Sized) -> str:
        """Both, side by side, as text."""
        return "; ".join(
            f"{name} {size(taken)}, {taken / max(1, self.entry_count):.2f} bytes a key, "
            f"{taken / max(1, self.block_count):.2f} ({8 * taken / max(1, self.block_count):,.0f} "
            "bits) a block"
            for name, taken in (("index", self.index_bytes), ("filters", self.filter_bytes))
        )


def count(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun.

    >>> count(1, "entry", "entries"), count(1200, "table")
    ('1 entry', '1,200 tables')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def count_entries(number: int) -> str:
    return count(number, "entry", "entries")


def size(number: float) -> str:
    """A number of bytes in the unit that fits it.

    >>> size(0), size(1), size(1023), size(1536), size(3 << 30)
    ('0 bytes', '1 byte', '1023 bytes', '1.5 KiB', '3.0 GiB')
    """
    if number < 1024:
        return "1 byte" if number == 1 else f"{number:.0f} bytes"
    power = 0
    while number >= 1024 and power < len(_UNITS) - 1:
        number /= 1024
        power += 1
    return f"{number:.1f} {_UNITS[power]}"


def utc(at_s: int) -> str:
    """A time in seconds since 1970.

    >>> utc(1795838400), utc(1 << 40)
    ('2026-11-28 04:00:00 UTC', 'in the year 10000 or later')
    """
    try:
        return f"{datetime.datetime.fromtimestamp(at_s, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return "in the year 10000 or later"


def _plain(value: object) -> int | str:
    """A part of a report: values may be large, and paths no UTF-8."""
    if isinstance(value, bytes):
        return repr(value[:_LONGEST])
    if type(value) is int:
        return value
    text = str(value)
    return text if text.isprintable() else repr(text)


def _json_safe(value: object) -> object:
    if isinstance(value, Report):
        return value.as_dict()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [_json_safe(item) for item in value]
    return value
