"""What a fuzz target is, and what one execution of it may do."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lsmkv.errors import CorruptionError, UnsupportedFormatError

DOCUMENTED: Final[tuple[type[Exception], ...]] = (CorruptionError, UnsupportedFormatError)
"""What a decoder of bytes on disk may raise."""


class WrongResultError(Exception):
    """A decoder gave something that cannot be right."""


def _unchanged(data: bytes) -> bytes:
    return data


def _proportional(size: int) -> int:
    """Bytes of memory that decoding may take: a fixed amount, and a multiple of the input."""
    return (1 << 20) + 100 * size


@dataclass(frozen=True, slots=True)
class Harness:
    """One decoder, and how to feed it.

    Attributes:
        name: as the command line takes it.
        check: decodes the bytes; raises one of ``errors``, or ``WrongResultError`` where what comes
            out contradicts itself or does not encode to what it came from.
        seeds: well-formed inputs.
        seal: the same bytes with checksums that hold.
        errors: what ``check`` may raise.
        words: pieces that inputs are made of, for mutations.
        most_bytes: memory that an input of that size may take.
    """

    name: str
    check: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    seal: Callable[[bytes], bytes] = _unchanged
    errors: tuple[type[Exception], ...] = DOCUMENTED
    words: tuple[bytes, ...] = ()
    most_bytes: Callable[[int], int] = _proportional


def execute(harness: Harness, data: bytes) -> tuple[bool, str | None]:
    """Whether the input decodes, and what is wrong with how it went (None: nothing)."""
    try:
        harness.check(data)
    except harness.errors:
        return False, None
    except WrongResultError as error:
        return True, f"wrong result: {error}"
    except Exception as error:
        return False, f"{type(error).__name__} is not a documented error: {str(error)[:200]}"
    return True, None


def execute_measured(harness: Harness, data: bytes) -> tuple[bool, str | None]:
    """As :func:`execute`, with memory and time held to the input's size."""
    started = time.process_time()
    tracemalloc.start()
    try:
        decodes, problem = execute(harness, data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    took = time.process_time() - started
    if problem is None and peak > harness.most_bytes(len(data)):
        problem = f"{peak} bytes of memory for an input of {len(data)}"
    if problem is None and took > 2.0 + 1e-4 * len(data):
        problem = f"{took:.1f} s for an input of {len(data)} bytes"
    return decodes, problem


def expect(holds: bool, what: str) -> None:
    """Raise WrongResultError unless it holds."""
    if not holds:
        raise WrongResultError(what)
