"""The phases by name: each is a function of one engine's stores.

A timed loop has nothing but the operation.  Results are counted before the clock starts, in the pass
that warms the cache, or after it has stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from . import changing, cold, reading, writing
from .outcome import Outcome, Passes
from .stores import Stores


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase.

    Attributes:
        outcomes: prepares the phase, and then gives one outcome for each pass.
        repeated: it can have several passes; engines take turns at them.
    """

    outcomes: Callable[[Stores], Passes]
    repeated: bool
    meaning: str


def _repeated(outcomes: Callable[[Stores], Passes]) -> Phase:
    return Phase(outcomes, True, _meaning(outcomes))


def _once(measure: Callable[[Stores], Outcome]) -> Phase:
    def outcomes(stores: Stores) -> Passes:
        yield measure(stores)

    return Phase(outcomes, False, _meaning(measure))


def _meaning(function: object) -> str:
    return " ".join((function.__doc__ or "").split())


PHASES: Final[dict[str, Phase]] = {
    "sustained": _once(writing.sustained),  # first: its memory is best measured in a new process
    "fillcompacted": _once(writing.fillcompacted),
    "fillseq": _once(writing.fillseq),
    "fillbatch": _once(writing.fillbatch),
    "overwrite": _once(writing.overwrite),
    "fillsync": _once(writing.fillsync),
    "fillsync_8": _once(writing.fillsync_8),
    "fillrandom": _once(writing.fillrandom),
    "readrandom": _repeated(reading.readrandom),
    "readmissing": _repeated(reading.readmissing),
    "multi_get": _repeated(reading.multi_get),
    "readseq": _repeated(reading.readseq),
    "readreverse": _repeated(reading.readreverse),
    "seekrandom": _repeated(reading.seekrandom),
    "seekrandom_100": _repeated(reading.seekrandom_100),
    "readrandom_cold_open": _repeated(cold.readrandom_cold_open),
    "readmissing_cold_open": _repeated(cold.readmissing_cold_open),
    "readrandom_cold": _repeated(cold.readrandom_cold),
    "readmissing_cold": _repeated(cold.readmissing_cold),
    "readrandom_cold_8": _repeated(cold.readrandom_cold_8),
    "readmissing_cold_8": _repeated(cold.readmissing_cold_8),
    "readrandom_limited": _repeated(cold.readrandom_limited),
    "readmissing_limited": _repeated(cold.readmissing_limited),
    # Once: an engine that reads ahead by the MiB takes minutes.
    "readrandom_group": Phase(cold.readrandom_group, False, _meaning(cold.readrandom_group)),
    "open": _repeated(reading.reopen),
    "readdeleted": _repeated(changing.readdeleted),
    "scandeleted": _repeated(changing.scandeleted),
    "readcompacting": _repeated(changing.readcompacting),
    "compacting": _once(changing.compacting),
    "readwhilewriting": _repeated(reading.readwhilewriting),  # the last on its store: it changes it
    "disk_none": _once(writing.disk_none),
    "disk_zstd": _once(writing.disk_zstd),
}
"""In the order of measurement."""

LIMITED: Final = tuple(name for name in PHASES if name.endswith("_limited"))
"""The phases that keep the page cache below a limit."""

IN_GROUP: Final = tuple(name for name in PHASES if name.endswith("_group"))
"""The phases in a control group."""
