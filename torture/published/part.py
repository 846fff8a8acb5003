"""The part ``published``: publishers and readers behind a proxy that fails and lies.

In each round a process publishes one version of a store after another, and two read it, through one
disk cache that they share.  Meanwhile the proxy before the server drops, delays, cuts, repeats and swaps
answers, or answers with errors, and processes are killed.  Every read gives what the generation that it
opened holds (:mod:`torture.published.ledger`), or an error.  Now and then the proxy is calm: then the
next publication must succeed, and every reader must find it, whole.
"""

from __future__ import annotations

import importlib.util
import os
import random
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unittest import mock

from bench.harness.object_server import BUCKET, Fault, ObjectServer, missing, start
from torture.framework.child_trials import Limits, Verdict, try_all
from torture.framework.part import Failure, Outcome, Part, Scale, Settings, UnsoundError, expect
from torture.published.child import Child, FailedError, Publisher, Reader
from torture.published.ledger import Ledger

ROUNDS: Final = {Scale.CI: 2, Scale.SHORT: 8, Scale.LONG: 2000}
STORMS: Final = 3  # times in each round that the proxy fails, and then is calm
STEPS: Final = 6  # in each storm
FAULTS: Final = (
    Fault("status", status=500),
    Fault("status", status=503),
    Fault("reset"),
    Fault("unanswered"),
    Fault("truncate"),
    Fault("close"),
    Fault("stall", seconds=0.3),
    Fault("trickle", seconds=0.0005),
    Fault("twice", method="PUT"),
    Fault("damage", method="GET", match="/generations/"),
    Fault("swap", method="GET", match="/generations/"),
    *(Fault("damage", method="GET", match="/tables/") for _ in range(4)),
    *(Fault("swap", method="GET", match="/tables/") for _ in range(4)),
)
STALE: Final = Fault("stale", match="list-type=")
"""Only while nothing is published: a publisher believes in the lists of its server."""

_NOTE: Final = (
    "the clock kills processes, and requests come in any order: a replay does the same with the same "
    "seed, but may need several tries to fail again"
)
_RESIDENCIES: Final = ("resident", "cached")
_NO_LIMIT_BYTES: Final = 1 << 44
_ROUND_S: Final = 300.0
_LONGEST_LIFE_S: Final = 0.3


class Round:
    """One round: a store, its publisher and its readers."""

    def __init__(self, server: ObjectServer, seed: str, directory: Path, url: str) -> None:
        self.counts: Counter[str] = Counter()
        self._server = server
        self._dice = random.Random(f"published {seed}")
        number = self._dice.randrange(1 << 30)
        self._ledger = Ledger(number)
        self._roles: dict[str, tuple[Any, ...]] = {
            "publisher": (Publisher, directory / "store", url, number),
            **{each: (Reader, directory / "cache", url, each) for each in _RESIDENCIES},
        }
        self._cache = directory / "cache"
        self._children: dict[str, Child] = {}

    def run(self) -> None:
        try:
            self._calm()
            self._calm()  # which refreshes handles that nothing has disturbed
            for _ in range(STORMS):
                for _ in range(STEPS):
                    self._step()
                self._calm()
        finally:
            self._server.calm()
            for child in self._children.values():
                child.kill()

    def _child(self, role: str) -> Child:
        if role not in self._children:
            self._children[role] = Child(*self._roles[role])
        return self._children[role]

    def _step(self) -> None:
        """Let each process do something, or nothing, while some requests fail."""
        dice = self._dice
        publishes = dice.random() < 0.5
        kinds = FAULTS if publishes else (*FAULTS, STALE, STALE)
        self._server.inject(
            *(
                replace(fault, skip=dice.randrange(8), times=dice.choice((1, 2, 5, 20)))
                for fault in dice.sample(kinds, dice.randint(1, 3))
            )
        )
        asked: list[tuple[str, tuple[Any, ...]]] = []
        for role in _RESIDENCIES:
            method = dice.choice(("read", "read", "open", "refresh"))
            asked.append((role, (method, dice.random()) if method == "read" else (method,)))
        if publishes:
            self._ledger.begun += 1
            asked.append(("publisher", ("publish", self._ledger.begun)))
        for role, call in asked:
            self._child(role).ask(*call)
        if dice.random() < 0.4:
            for path in self._cache.glob("*.segment"):
                path.unlink(missing_ok=True)
        if dice.random() < 0.3:
            killed, _ = asked.pop(dice.randrange(len(asked)))
            time.sleep(dice.random() * _LONGEST_LIFE_S)
            self._children.pop(killed).kill()
            self.counts["processes killed"] += 1
        for role, call in asked:
            try:
                self._note(call, self._child(role).answer())
            except FailedError:
                self.counts[f"{call[0]}: failed"] += 1

    def _note(self, call: tuple[Any, ...], answer: Any) -> None:
        self.counts[call[0]] += 1
        if call[0] == "publish":
            self._ledger.acknowledge(answer, call[1])
        elif call[0] == "read":
            generation, found = answer
            for each in found:
                self._ledger.check(generation, each)
                self.counts["keys read"] += len(each)

    def _calm(self) -> None:
        """Have all of the newest generation read, and then all of a new one."""
        self._server.calm()
        if self._ledger.newest:
            self._read_all()  # also what the readers have cached meanwhile
        self._ledger.begun += 1
        generation = self._asked("publisher", "publish", self._ledger.begun)
        self._ledger.acknowledge(generation, self._ledger.begun)
        self._read_all()
        self.counts["calm"] += 1

    def _read_all(self) -> None:
        for role in _RESIDENCIES:
            for call in ("refresh", "open"):  # the handle that is there, and a new one
                self._asked(role, call)
                generation, found, problems = self._asked(role, "read_all")
                newest = self._ledger.newest
                expect(generation >= newest, f"generation {generation} is read, not {newest}")
                expect(not problems, problems)
                for each in found:
                    self._ledger.check(generation, each)

    def _asked(self, role: str, *call: Any) -> Any:
        child = self._child(role)
        child.ask(*call)
        try:
            return child.answer()
        except FailedError as error:
            raise UnsoundError(f"{call[0]} fails, although no request does: {error}") from None


class Trials:
    """Makes the round of a number."""

    def __init__(self, server: ObjectServer, settings: Settings) -> None:
        self._server = server
        self._seed = settings.seed

    def __call__(self, name: str, directory: Path) -> Verdict:
        place = directory / name
        place.mkdir(parents=True)
        url = f"s3://{BUCKET}/round-{int(name)}"
        made = Round(self._server, f"{self._seed}/{name}", place, url)
        failures = []
        with mock.patch.dict(os.environ, self._server.environment):
            try:
                made.run()
            except UnsoundError as error:
                failures.append(str(error))
        return {"rounds": 1, **made.counts}, failures


def run(settings: Settings) -> Outcome:
    """Run as many rounds as the scale asks for, or the one to replay."""
    outcome = Outcome(notes=[_NOTE])
    if importlib.util.find_spec("obstore") is None or missing("moto"):
        outcome.skipped.append(missing("moto") or "obstore is not installed")
        return outcome
    deadline = time.monotonic() + settings.time_limit_s
    names = [str(number) for number in range(ROUNDS[settings.scale])]
    limits = Limits(_ROUND_S, _NO_LIMIT_BYTES)
    with start("moto") as server:
        trial = Trials(server, settings)
        for name, (counts, failures) in try_all(trial, names, settings, limits, deadline):
            outcome.counts.update(counts)
            outcome.failures += [Failure(f"round {name}: {what}", name) for what in failures]
            if failures:
                break  # the proxy may not be as it was
    return outcome


PART: Final = Part(
    "published",
    "Whatever answers object storage drops, delays, cuts, repeats or swaps, and whichever process dies: "
    "a read of a published store, through a disk cache, gives the value of the generation that it "
    "opened, or an error; and every publication that returned is there.",
    run,
)
