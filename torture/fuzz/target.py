"""Fuzz targets, and one execution of a target."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lsmkv.errors import CorruptionError, UnsupportedFormatError
from torture.framework.part import UnsoundError

DOCUMENTED: Final[tuple[type[Exception], ...]] = (CorruptionError, UnsupportedFormatError)
"""Errors that decoders of bytes on disk may raise."""


def _unchanged(data: bytes) -> bytes:
    return data


def _proportional(size: int) -> int:
    """Memory in bytes that decoding may take: a constant and a multiple of the input."""
    return (1 << 20) + 100 * size


@dataclass(frozen=True, slots=True)
class Target:
    """One decoder and its inputs.

    Attributes:
        check: decodes the bytes; raises one of ``errors``, or ``UnsoundError`` if the result
            contradicts itself or does not encode to the input.
        seeds: makes well-formed inputs.
        seal: corrects the checksums of an input.
        errors: errors that ``check`` may raise.
        words: pieces of inputs, for mutations.
        most_bytes: memory that an input of a given size may take.
    """

    name: str
    check: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    seal: Callable[[bytes], bytes] = _unchanged
    errors: tuple[type[Exception], ...] = DOCUMENTED
    words: tuple[bytes, ...] = ()
    most_bytes: Callable[[int], int] = _proportional


def execute(target: Target, data: bytes) -> tuple[bool, str | None]:
    """Whether the input decodes, and the problem, if any."""
    try:
        target.check(data)
    except target.errors:
        return False, None
    except UnsoundError as error:
        return True, f"wrong result: {error}"
    except Exception as error:
        return False, f"{type(error).__name__} is not a documented error: {str(error)[:200]}"
    return True, None


def execute_measured(target: Target, data: bytes) -> tuple[bool, str | None]:
    """:func:`execute`, with limits of memory and time in proportion to the input."""
    started = time.process_time()
    tracemalloc.start()
    try:
        decodes, problem = execute(target, data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    took = time.process_time() - started
    if problem is None and peak > target.most_bytes(len(data)):
        problem = f"it took {peak} bytes of memory for an input of {len(data)} bytes"
    if problem is None and took > 2.0 + 1e-4 * len(data):
        problem = f"it took {took:.1f} s for an input of {len(data)} bytes"
    return decodes, problem
