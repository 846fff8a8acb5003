"""Copies of what a caller may change while a call waits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def copied(data: Any) -> Any:
    """``data`` as bytes; what is not bytes-like stays as it is, for the store to refuse."""
    if type(data) is bytes:
        return data
    try:
        return bytes(memoryview(data))
    except TypeError:
        return data


def all_copied(keys: Iterable[Any]) -> Iterable[Any]:
    """Each of ``keys`` as :func:`copied`; what is one key stays as it is, for the store to refuse."""
    if isinstance(keys, (bytes, bytearray, memoryview, str)):
        return keys
    return list(map(copied, keys))
