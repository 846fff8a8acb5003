"""Whether a history of transactions is serialisable: the anomalies of Adya, as Elle infers them.

Each value is appended to the list of one key, and once only.  So a list that was read tells which
transactions it was read after, and in what order these came:

- *ww*: a transaction appended right after another to the same list.
- *wr*: it read a list that ends with what another appended.
- *rw*: it read a list to which another appended next.  A key that is not there has the empty list, and a
  range was read as every key that might have been in it: so phantoms are found, too.
- *rt*: it began when another had ended.

The history is serialisable, in the order of time, if these edges form no cycle.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Final

List = tuple[int, ...]


@dataclass
class Done:
    """What one transaction did.

    Attributes:
        number: its name.
        begun, ended: when, on one clock.
        committed: False: it must have had no effect.
        gets: lists by key that it read alone, without what it had appended itself.
        scans: the same, of keys in a range that it read.
        appends: keys and values, in order.
    """

    number: int
    begun: int = 0
    ended: int = 0
    committed: bool = True
    gets: dict[bytes, List] = field(default_factory=dict)
    scans: dict[bytes, List] = field(default_factory=dict)
    appends: list[tuple[bytes, int]] = field(default_factory=list)

    @property
    def reads(self) -> Iterable[tuple[bytes, List]]:
        return [*self.gets.items(), *self.scans.items()]


@dataclass(frozen=True)
class Anomaly:
    """``kind`` is the name in the literature; ``what`` tells the keys, values or transactions."""

    kind: str
    what: str


_WEAKEST: Final = ("ww", "wr", "rw", "phantom", "rt")
"""Kinds of edges; where there are several between two transactions, the first counts."""

_LOOKED_AT: Final = 500  # edges from which cycles are sought, to give them names


class _Edges:
    def __init__(self) -> None:
        self.kinds: dict[tuple[int, int], dict[str, bytes]] = {}

    def add(self, kind: str, before: int, after: int, key: bytes) -> None:
        if before != after:
            self.kinds.setdefault((before, after), {}).setdefault(kind, key)

    def cycle(self, *allowed: str) -> list[tuple[int, int]]:
        """The edges of a cycle of these kinds; empty without one."""
        graph: dict[int, set[int]] = {}
        for (before, after), kinds in self.kinds.items():
            if not kinds.keys().isdisjoint(allowed):
                graph.setdefault(after, set()).add(before)
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            nodes: list[int] = error.args[1]
            return list(pairwise(nodes))
        return []

    def followers(self, *allowed: str) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for (before, after), kinds in self.kinds.items():
            if not kinds.keys().isdisjoint(allowed):
                found.setdefault(before, []).append(after)
        return found

    def told(self, cycle: list[tuple[int, int]], *allowed: str) -> tuple[list[str], str]:
        """The kind of each edge, and all of them as text."""
        kinds: list[str] = []
        parts: list[str] = []
        for edge in cycle:
            kind = next(kind for kind in _WEAKEST if kind in self.kinds[edge] and kind in allowed)
            kinds.append(kind)
            parts.append(f"{edge[0]} -{kind} {self.kinds[edge][kind]!r}-> {edge[1]}")
        return kinds, "; ".join(parts)


def anomalies(history: list[Done], final: dict[bytes, List]) -> list[Anomaly]:
    """What is wrong with a history after which the lists were ``final``."""
    found = [*_wrong_values(history, final)]
    edges = _edges([done for done in history if done.committed], final)
    if edges.cycle("ww"):
        found.append(Anomaly("G0", edges.told(edges.cycle("ww"), "ww")[1]))
    if cycle := edges.cycle("ww", "wr"):
        found.append(Anomaly("G1c", edges.told(cycle, "ww", "wr")[1]))
    found += _cycles_with_reads(edges)
    if not found and (cycle := edges.cycle(*_WEAKEST)):
        found.append(Anomaly("not in real time", edges.told(cycle, *_WEAKEST)[1]))
    return found


def _wrong_values(history: list[Done], final: dict[bytes, List]) -> Iterable[Anomaly]:
    committed = [done for done in history if done.committed]
    discarded = {value for done in history if not done.committed for _, value in done.appends}
    for key, values in final.items():
        if repeated := [value for value, count in Counter(values).items() if count > 1]:
            yield Anomaly("repeated", f"{key!r}: {repeated}")
        if dirty := discarded.intersection(values):
            yield Anomaly("G1a", f"{key!r} has at the end {dirty}")
    for done in committed:
        for key, value in done.appends:
            if value not in final.get(key, ()):
                yield Anomaly("lost update", f"{done.number} appended {value} to {key!r}")
        for key, values in done.reads:
            if dirty := discarded.intersection(values):
                yield Anomaly("G1a", f"{done.number} read of {key!r} {dirty}")
            elif values != final.get(key, ())[: len(values)]:
                yield Anomaly("other order", f"{done.number} read {key!r} as {values}")


def _edges(history: list[Done], final: dict[bytes, List]) -> _Edges:
    edges = _Edges()
    writer = {value: done.number for done in history for _, value in done.appends}
    for key, values in final.items():
        for before, after in pairwise(values):
            edges.add("ww", writer.get(before, -1), writer.get(after, -1), key)
    for done in history:
        for kind, reads in (("rw", done.gets), ("phantom", done.scans)):
            for key, values in reads.items():
                versions = final.get(key, ())
                if values:
                    edges.add("wr", writer.get(values[-1], -1), done.number, key)
                    follower = versions[len(values) : len(values) + 1]
                    if follower and writer.get(follower[0]) == writer.get(values[-1]):
                        # G1b: it saw a part of what another did, and so came before it, too.
                        edges.add("ww", done.number, writer.get(follower[0], -1), key)
                if len(values) < len(versions):
                    edges.add(kind, done.number, writer.get(versions[len(values)], -1), key)
    _add_time(edges, history)
    return edges


def _add_time(edges: _Edges, history: list[Done]) -> None:
    """Edges by way of moments, numbered from -2 down: one for each end."""
    moments = sorted(done.ended for done in history)
    for at in range(1, len(moments)):
        edges.add("rt", -1 - at, -2 - at, b"")
    for done in history:
        edges.add("rt", done.number, -2 - moments.index(done.ended), b"")
        ended = bisect_left(moments, done.begun)
        if ended:
            edges.add("rt", -1 - ended, done.number, b"")


def _cycles_with_reads(edges: _Edges) -> Iterable[Anomaly]:
    """Cycles with one or more rw edges, short ones if there are."""
    every = ("ww", "wr", "rw", "phantom")
    if not edges.cycle(*every):
        return
    names = set()
    graphs = [edges.followers("ww", "wr"), edges.followers(*every)]
    broken = [edge for edge, kinds in edges.kinds.items() if not kinds.keys().isdisjoint(every[2:])]
    for before, after in broken[:_LOOKED_AT]:
        for graph in graphs:
            path = _shortest_path(graph, after, before)
            if path:
                name, what = _named(edges, [(before, after), *path], every)
                if name not in names:
                    names.add(name)
                    yield Anomaly(name, what)
                break


def _shortest_path(graph: dict[int, list[int]], start: int, goal: int) -> list[tuple[int, int]]:
    """The edges of a path; empty without one."""
    came: dict[int, int] = {}
    waiting = deque([start])
    while waiting and goal not in came:
        at = waiting.popleft()
        for after in graph.get(at, ()):
            if after not in came and after != start:
                came[after] = at
                waiting.append(after)
    path: list[tuple[int, int]] = []
    while goal in came:
        path.insert(0, (came[goal], goal))
        goal = came[goal]
    return path


def _named(
    edges: _Edges, cycle: list[tuple[int, int]], allowed: tuple[str, ...]
) -> tuple[str, str]:
    kinds, what = edges.told(cycle, *allowed)
    keys = {edges.kinds[edge][kind] for edge, kind in zip(cycle, kinds, strict=True)}
    if "phantom" in kinds:
        return "phantom", what
    if sorted(kinds) == ["rw", "ww"] and len(keys) == 1:
        return "lost update", what
    if kinds.count("rw") == 1:
        return "read skew", what
    return ("write skew" if kinds == ["rw", "rw"] else "G2"), what
