"""The families of the part ``objects``."""

from __future__ import annotations

from typing import Final

from torture.objects import (
    abused,
    copied,
    cycles,
    dropped,
    interpreters,
    interrupted,
    reentered,
    shared,
)
from torture.objects.trial import Variant

FAMILIES: Final[dict[str, dict[str, Variant]]] = {
    "shared": shared.VARIANTS,
    "dropped": dropped.VARIANTS,
    "cycles": cycles.VARIANTS,
    "copied": copied.VARIANTS,
    "reentered": reentered.VARIANTS,
    "interrupted": interrupted.VARIANTS,
    "interpreters": interpreters.VARIANTS,
    "abused": abused.VARIANTS,
}
"""All kinds of misuse, by family and variant."""
