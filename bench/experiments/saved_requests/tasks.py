"""The configurations of ``saved-requests``: error rates, engines side by side, and many keys at once."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Final, Literal

from ...harness.experiment import Plan
from ...harness.object_server import SERVERS, ServerKind, missing

Part = Literal["rates", "engines", "parallel"]

RATES: Final = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001)
"""Error rates of Bloom filters; 1 stands for none."""

RUNS: Final = (1, 4)
BITS_PER_KEY: Final = 10  # of the filters of engines that stand side by side
ENGINE_RATE: Final = math.exp(-BITS_PER_KEY * math.log(2) ** 2)
"""The error rate that asks for Bloom filters of ``BITS_PER_KEY``."""

RIBBON_RATE: Final = 0.00153
"""The lowest error rate of ribbon filters of that size, in blocks of 34 keys."""

BATCH_KEYS: Final = 1000
DELAY_S: Final = 0.020


@dataclass(frozen=True, slots=True)
class Task:
    """One store on one server.

    Attributes:
        engine: ``lsmkv``, ``lsmkv, ribbon`` or ``slatedb``.
        error_rate: 1 stands for no filters; what slatedb's bits per key stand for.
        most_lookups: lookups, each of another key, at most.
        enough_gets: GETs after which no more lookups are made.
    """

    part: Part
    engine: str
    run_count: int
    error_rate: float
    key_count: int
    most_lookups: int
    enough_gets: int
    seed: int
    server: ServerKind
    get_ms: float
    get_usd: float

    def __str__(self) -> str:
        runs = f"{self.run_count} run{'s' * (self.run_count > 1)}"
        rate = "no filters" if self.error_rate == 1 else f"p {self.error_rate * 100:.3g} %"
        return f"{self.part}: {self.engine}, {runs}, {rate}"


def tasks(plan: Plan) -> list[Task]:
    given = plan.options
    keys = given.keys or (20_000 if plan.quick else 200_000)
    lookups = given.lookups or (5_000 if plan.quick else 200_000)
    gets = given.gets or (100 if plan.quick else 1_000)

    def task(part: Part, engine: str, runs: int, rate: float) -> Task:
        return Task(
            part, engine, runs, rate, keys, lookups, gets, plan.seed, given.server,
            given.get_ms, given.get_usd / 1000,
        )  # fmt: skip

    found = [task("rates", "lsmkv", runs, rate) for runs in RUNS for rate in RATES]
    engines = ["lsmkv", "lsmkv, ribbon", "slatedb"]
    if not has_slatedb():
        engines.remove("slatedb")
    rates = {"lsmkv, ribbon": RIBBON_RATE}
    found += [
        task("engines", engine, runs, rates.get(engine, ENGINE_RATE))
        for runs in RUNS
        for engine in engines
    ]
    parallel = task("parallel", "lsmkv", 1, 0.01)
    servers = [server for server in SERVERS if server == given.server or not missing(server)]
    return found + [dataclasses.replace(parallel, server=server) for server in servers]


def has_slatedb() -> bool:
    import importlib.util

    return importlib.util.find_spec("slatedb") is not None
