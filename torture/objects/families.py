"""The families of the part ``objects``, and the process that runs one trial."""

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
"""What is done to objects, by family and variant."""
