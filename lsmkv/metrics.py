"""Metrics of stores for Prometheus, as OpenMetrics: ``pip install "lsmkv[metrics]"``.

:class:`StoreCollector` is what a registry of prometheus-client collects; :func:`openmetrics` is the text
by itself.  Each metric has the label ``store``.  Counters start at zero when a store is opened.

>>> import lsmkv, lsmkv.metrics, tempfile
>>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
...     db[b"key"] = b"value"
...     text = lsmkv.metrics.openmetrics({"fruit": db})
>>> [line for line in text.splitlines() if "writes_total" in line][-1]
'lsmkv_writes_total{store="fruit"} 1.0'

In a program that has a registry already::

    from prometheus_client import REGISTRY
    REGISTRY.register(lsmkv.metrics.StoreCollector({"fruit": db}))

Collecting is O(tables) for each store, and reads nothing from disk.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from lsmkv import DB, Histogram, MemoryUsage, Stats
from lsmkv.errors import ClosedError, ForkedError, MissingExtraError

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
    from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
except ModuleNotFoundError as error:
    raise MissingExtraError(
        f'lsmkv.metrics needs {error.name}, which is not installed: pip install "lsmkv[metrics]"'
    ) from error

__all__ = ["CONTENT_TYPE", "StoreCollector", "openmetrics"]

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
"""Content type of an HTTP answer with the text of :func:`openmetrics`."""

_LABELS: Final = ("store",)


class _Unit(NamedTuple):
    """A unit of ``Stats``, by the ending of a field's name."""

    ending: str
    name: str  # in OpenMetrics, which has base units only
    factor: float


_UNITS: Final = (
    _Unit("_bytes", "bytes", 1.0),
    _Unit("_us", "seconds", 1e-6),
    _Unit("_ns", "seconds", 1e-9),
    _Unit("_s", "seconds", 1.0),
)
_NO_UNIT: Final = _Unit("", "", 1.0)

# What the docstring of Stats says of each field; nothing where Python strips docstrings (-OO).
_HELP: Final = {
    field: " ".join(text.replace("``", "").split())
    for field, text in re.findall(
        r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", inspect.getdoc(Stats) or "", re.MULTILINE
    )
}

_DURATION_POWERS: Final = range(6, 29)  # from 64 microseconds to 268 seconds
_COUNT_POWERS: Final = range(1, 11)


def openmetrics(stores: DB | Mapping[str, DB] | Iterable[DB]) -> str:
    """The metrics of ``stores`` as text in the OpenMetrics format.

    Args:
        stores: open stores by the name that their label tells; or one or more stores, which their paths
            name.  What is not UTF-8 in a name is escaped.

    Raises:
        TypeError: a store is no DB.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StoreCollector(stores))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text.decode()


class StoreCollector:
    """Collects the metrics of stores for a registry of prometheus-client.

    It keeps no store open: one that was closed, or dropped, is left out from then on.  Arguments and
    errors as :func:`openmetrics`.
    """

    def __init__(self, stores: DB | Mapping[str, DB] | Iterable[DB]) -> None:
        # A DB is a mapping, too, and iterating over one would give its keys.
        if isinstance(stores, DB):
            stores = [stores]
        elif isinstance(stores, str | bytes) or not isinstance(stores, Iterable):
            raise TypeError(f"stores are DBs that lsmkv.open returned, not {type(stores).__name__}")
        elif hasattr(stores, "db"):  # a cache, or another layer: iterating would give its keys
            kind = type(stores).__name__
            raise TypeError(f"a {kind} is no DB; give openmetrics its store, {kind}.db")
        named = stores.items() if isinstance(stores, Mapping) else ((None, db) for db in stores)
        self._stores: dict[str, weakref.ref[DB]] = {}
        for name, db in named:
            if not isinstance(db, DB):
                raise TypeError(
                    f"a store is a DB that lsmkv.open returned, not {type(db).__name__}; "
                    "a cache has one as cache.db"
                )
            self._stores[_label(db.path if name is None else str(name))] = weakref.ref(db)

    def describe(self) -> Iterator[Metric]:
        """The names of all metrics, which a registry checks for clashes."""
        return _families([])

    def collect(self) -> Iterator[Metric]:
        """All metrics, with the values of now."""
        found = []
        for name, reference in self._stores.items():
            db = reference()
            if db is None or db.closed:
                continue
            try:
                keys, size = db.approximate_count(), db.approximate_size()
                found.append(_Found(name, db.stats(), db.memory_usage(), keys, size))
            except (ClosedError, ForkedError):  # closed meanwhile, or in the child of a fork
                continue
        return _families(found)


class _Found(NamedTuple):
    """Answers of a store."""

    name: str
    stats: Stats
    usage: MemoryUsage
    keys: int
    data_bytes: int


_GAUGES: Final[tuple[tuple[str, str, str, Callable[[_Found], int]], ...]] = (
    (
        "memory_budget",
        "Options.memory_budget_bytes; 0: none",
        "bytes",
        lambda of: of.usage.budget_bytes,
    ),
    (
        "data_size",
        "Data of tables and logs (DB.approximate_size)",
        "bytes",
        lambda of: of.data_bytes,
    ),
    ("approximate_keys", "About how many keys (DB.approximate_count)", "", lambda of: of.keys),
)


def _families(found: list[_Found]) -> Iterator[Metric]:
    for field in dataclasses.fields(Stats):
        yield _of_field(field.name, field.default is dataclasses.MISSING, found)
    memory = GaugeMetricFamily(
        "lsmkv_memory",
        "Memory by purpose (DB.memory_usage)",
        labels=(*_LABELS, "purpose"),
        unit="bytes",
    )
    for store in found:
        for purpose in ("memtable", "block_cache", "entry_cache", "index", "filter"):
            taken = getattr(store.usage, f"{purpose}_bytes")
            memory.add_metric([store.name, purpose], taken)
    yield memory
    for name, text, unit, value_of in _GAUGES:
        gauge = GaugeMetricFamily(f"lsmkv_{name}", text, labels=_LABELS, unit=unit)
        for store in found:
            gauge.add_metric([store.name], value_of(store))
        yield gauge


def _label(name: str) -> str:
    """A name without surrogates, which no text in UTF-8 can hold; a path may have some."""
    return name.encode(errors="backslashreplace").decode()


def _of_field(field: str, is_histogram: bool, found: list[_Found]) -> Metric:
    """The metric of a field of ``Stats``: of ``write_stop_s``, ``lsmkv_write_stop_seconds``."""
    unit = next((unit for unit in _UNITS if field.endswith(unit.ending)), _NO_UNIT)
    name = f"lsmkv_{field.removesuffix(unit.ending)}{unit.name and '_' + unit.name}"
    kind: Any = HistogramMetricFamily if is_histogram else CounterMetricFamily
    metric = kind(name, _HELP.get(field, f"lsmkv.Stats.{field}"), labels=_LABELS, unit=unit.name)
    for store in found:
        value = getattr(store.stats, field)
        if is_histogram:
            metric.add_metric([store.name], _buckets(value, unit), value.total * unit.factor)
        else:
            metric.add_metric([store.name], value * unit.factor)
    made: Metric = metric
    return made


def _buckets(values: Histogram, unit: _Unit) -> list[tuple[str, float]]:
    """Cumulative counts by upper bound, which is included; without a unit values are integers."""
    powers = _COUNT_POWERS if unit is _NO_UNIT else _DURATION_POWERS
    seen, buckets = 0, []
    for power, count in enumerate(values.buckets[: powers.stop]):
        seen += count
        if power in powers:
            bound = float((1 << power) - 1) if unit is _NO_UNIT else (1 << power) * unit.factor
            buckets.append((repr(bound), float(seen)))
    return [*buckets, ("+Inf", float(values.count))]
