"""What reports are: frozen dataclasses that turn into JSON-safe dictionaries."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Final

_BYTES_TYPES: Final = ("bytes", "bytes | None")


class Report:
    """Base of frozen dataclasses that report something.

    ``derived`` names the properties that ``as_dict`` shows besides the fields.
    """

    __slots__ = ()
    derived: ClassVar[tuple[str, ...]] = ()

    def as_dict(self) -> dict[str, object]:
        """JSON-safe values by name.

        Bytes are in hexadecimal, under their name followed by ``_hex``; reports inside this one are
        dictionaries too, and tuples are lists.
        """
        result: dict[str, object] = {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            name = f"{field.name}_hex" if field.type in _BYTES_TYPES else field.name
            result[name] = _json_safe(getattr(self, field.name))
        for name in self.derived:
            result[name] = _json_safe(getattr(self, name))
        return result


def _json_safe(value: object) -> object:
    if isinstance(value, Report):
        return value.as_dict()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [_json_safe(item) for item in value]
    return value
