"""The configurations of ``bulk``: each repetition loads the same entries in every way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.engines.base import missing_engines
from bench.harness.experiment import Plan

WAYS: Final = (
    "puts, any order",
    "puts, in order",
    "bulk_load, in order",
    "bulk_load, any order",
    "rocksdb puts, any order",
    "rocksdb puts, in order",
    "rocksdb SstFileWriter, in order",
)
"""Ways to load: an engine's, of keys in a random order or in order."""

VALUE_BYTES: Final = 100


@dataclass(frozen=True, slots=True)
class Task:
    """One repetition; ``number`` rotates the order of the ways, of which ``ways`` are measured."""

    entries: int
    number: int
    ways: tuple[str, ...]
    seed: int

    def __str__(self) -> str:
        return f"{self.entries:,} entries, repetition {self.number + 1}"


def tasks(plan: Plan) -> list[Task]:
    given = plan.options
    entries = given.entries or (200_000 if plan.quick else 20_000_000)
    repetitions = given.repetitions or (2 if plan.quick else 3)
    here = [way for way in WAYS if not way.startswith(tuple(missing_engines()))]
    ways = tuple(given.ways or here)
    return [Task(entries, number, ways, plan.seed) for number in range(repetitions)]
