"""The data sets of ``saved-io``: what a store holds, and the keys that it is asked for."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from lsmkv.options import MIB

from ...workloads import files, key_files
from ...workloads.distributions import exact_ranks, generator
from ...workloads.key_files import KeyFiles
from ...workloads.keys import (
    KEY_BYTES,
    Values,
    absent_key,
    chunks,
    key_number,
    passes,
    present_key,
)

HBASE_CELL_BYTES: Final = 200

DIGITS: Final = "digits"
HBASE: Final = "hbase"
PATHS: Final = "paths"
YOURS: Final = "yours"  # the data set of --keys and --lookups
_APART: Final = 10**9  # more than a data set has entries
_SEEDS: Final = 10**6  # keys have 16 digits, and numbers 8 bytes


@dataclass(frozen=True, slots=True)
class Content:
    """Entries, and what is looked up.

    Attributes:
        entries: no key twice.
        absent: absent keys close to the entries, of which lookups are drawn.
        trace: lookups in their order, present keys and absent ones; then none are drawn.
        first: keys whose entries are written first, and so are in as few runs as can be.
    """

    entries: Sequence[tuple[bytes, bytes]]
    absent: Sequence[bytes] = ()
    trace: Sequence[bytes] = ()
    first: Collection[bytes] = ()


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set by name.

    Attributes:
        make: its content, of a number of entries (or fewer, if there are not so many) and a seed.
        entries: how many by default, quick and full.
        block_kib, runs: the stores, quick and full; each block size with each number of runs.
        rates: the requested rates, quick and full; empty: all.
        is_made: there may be any number of entries; ``--entries`` chooses.
        policies: its filter policies, in place of those of ``--policies``.
        is_limited: its timed lookups have less memory than data.
    """

    name: str
    make: Callable[[int, int], Content]
    entries: tuple[int, int] = (50_000, 500_000)
    block_kib: tuple[Sequence[int], Sequence[int]] = ((4,), (4,))
    runs: tuple[Sequence[int], Sequence[int]] = ((1, 4), (1, 4))
    rates: tuple[Sequence[float | None], Sequence[float | None]] = ((), ())
    is_made: bool = False
    policies: Sequence[str] = ()
    is_limited: bool = False


_DATA_SETS: dict[str, DataSet] = {}


def register(data_set: DataSet) -> DataSet:
    """Add ``data_set`` to the known ones.  ValueError: another has that name."""
    if data_set.name in (*_DATA_SETS, YOURS):
        raise ValueError(f"data set {data_set.name!r} is registered already")
    if not data_set.name or "," in data_set.name:
        raise ValueError(f"data set {data_set.name!r}: its name must not be empty or have commas")
    _DATA_SETS[data_set.name] = data_set
    return data_set


def data_sets() -> list[DataSet]:
    """Those that are registered."""
    return list(_DATA_SETS.values())


def data_set_named(name: str) -> DataSet:
    if name not in _DATA_SETS:
        raise ValueError(f"data set {name!r}: must be one of {', '.join(_DATA_SETS)}")
    return _DATA_SETS[name]


@lru_cache(maxsize=1)
def content(name: str, entries: int, seed: int, own: KeyFiles | None = None) -> Content:
    """The content of the data set of that name, or of one's own files."""
    if own is not None:
        return _yours(own, seed)
    made = data_set_named(name).make(entries, seed)
    if not made.entries or not (made.trace or made.absent):
        raise ValueError(f"data set {name!r} has no entries or nothing to look up")
    return made


def entries_of(pairs: Sequence[tuple[bytes, int]], seed: int) -> list[tuple[bytes, bytes]]:
    """Entries of keys and sizes of values; of a key that comes again the last size counts."""
    sizes = dict(pairs)
    values = Values(max(sizes.values(), default=0), seed)
    return [
        (key, values.of(number)[:size_bytes])
        for number, (key, size_bytes) in enumerate(sizes.items())
    ]


def _yours(own: KeyFiles, seed: int) -> Content:
    pairs = _read_once(own.keys, own.value_bytes, own.key_field)
    trace = [key for key, _ in _read_once(own.lookups, 0, own.key_field)]
    return Content(entries_of(pairs, seed), trace=trace)


# A pipe can be read once, and each repetition needs its keys again.
_read_once = lru_cache(maxsize=2)(key_files.read_keys)


def _numbers(key_bytes: int) -> Callable[[int, int], Content]:
    """Numbers of so many bytes, the highest first, drawn evenly: all but a few lie far apart."""

    def make(entries: int, seed: int) -> Content:
        values, draw = Values(KEY_BYTES + 100 - key_bytes, seed), random.Random(f"numbers/{seed}")
        keys = sorted({draw.randbytes(key_bytes) for _ in range(entries)})
        return Content(
            [(key, values.of(number)) for number, key in enumerate(keys)],
            [key[:-1] + bytes([key[-1] ^ 1]) for key in keys[1:-1]],
        )

    return make


def _cells(size_bytes: int) -> Callable[[int, int], Content]:
    def make(entries: int, seed: int) -> Content:
        values = Values(size_bytes - KEY_BYTES, seed)
        # The same keys would make the same filters.
        first = seed % _SEEDS * _APART
        numbers = range(first, first + entries)
        return Content(
            [(present_key(number), values.of(number)) for number in numbers],
            # None after the last key: all lie between two present keys.
            [absent_key(number) for number in numbers[:-1]],
        )

    return make


def _paths(most: int, seed: int) -> Content:
    described = (
        (key, value)
        for key, path in files.find_files(files.python_roots())
        # Python makes and removes these at any time.
        if b"/__pycache__/" not in key and (value := files.describe_file(path)) is not None
    )
    entries = [entry for entry, _ in zip(described, range(most), strict=False)]
    keys = [key for key, _ in entries]
    last = max(keys)
    near = files.absent_keys(keys, len(keys), seed)
    return Content(entries, [key for key in near if key < last])


TENANT_RANGE: Final = 0.1
TENANT_LOOKUPS: Final = 0.9
"""The part of the keys that is the hot tenant's, and the part of the lookups that ask for them."""


def _tenants(in_one_run: bool) -> Callable[[int, int], Content]:
    """Absent keys, most of them in a tenant's range; its entries are in all runs, or in one."""

    def make(entries: int, seed: int) -> Content:
        made = _cells(KEY_BYTES + 100)(entries, seed)
        low = round(len(made.absent) * (1 - TENANT_RANGE) / 2)
        high = round(len(made.absent) * (1 + TENANT_RANGE) / 2)
        hot, others = made.absent[low:high], [*made.absent[:low], *made.absent[high:]]
        draw = random.Random(f"tenant/{seed}")
        hot_lookups = round(entries * TENANT_LOOKUPS)
        trace = passes(hot, hot_lookups, draw) + passes(others, entries - hot_lookups, draw)
        draw.shuffle(trace)
        theirs = {present_key(key_number(key)) for key in hot} if in_one_run else ()
        return Content(made.entries, made.absent, trace, theirs)

    return make


STRETCHES: Final = 100  # the equal parts of the key range whose popularity follows a Zipf law


def _skewed(exponent: float) -> Callable[[int, int], Content]:
    """Absent keys of stretches of the key range, some of which are popular."""

    def make(entries: int, seed: int) -> Content:
        made = _cells(KEY_BYTES + 100)(entries, seed)
        law, draw = generator(seed, "stretches", exponent), random.Random(f"stretches/{seed}")
        asked = exact_ranks(STRETCHES, exponent, entries, law).tolist()
        stretches = list(chunks(made.absent, STRETCHES))
        draw.shuffle(stretches)
        trace = [
            key
            for rank, stretch in enumerate(stretches)
            for key in passes(stretch, asked.count(rank), draw)
        ]
        draw.shuffle(trace)
        return Content(made.entries, made.absent, trace)

    return make


EVERY_SHAPE: Final = ((4, 64), (4, 16, 64)), ((1, 4), (1, 4, 10))
"""Block sizes and numbers of runs, quick and full."""

register(DataSet(DIGITS, _cells(KEY_BYTES + 100), (50_000, 500_000), *EVERY_SHAPE, is_made=True))
register(
    DataSet(
        HBASE,
        _cells(HBASE_CELL_BYTES),
        (64 * MIB // HBASE_CELL_BYTES, 1024 * MIB // HBASE_CELL_BYTES),
        ((64,), (64,)),
        ((1,), (1,)),
        rates=((None, 0.1, 0.01, 0.001), ()),
        is_made=True,
    )
)
register(DataSet(PATHS, _paths, (8000, 100_000), runs=((4,), (4,))))
_FOUR_RUNS: Final = ((4,), (4,))
_SKEW_RATES: Final = (None, 0.1, 0.01, 0.001)
ZIPF: Final = {f"zipf-{exponent:g}": exponent for exponent in (0.0, 0.8, 1.1)}
TENANTS: Final = ("tenant", "tenant-in-one-run")
SKEWED: Final = (*ZIPF, *TENANTS)
"""Who asks for absent keys: popular stretches of the key range, by exponents, and a hot tenant."""
for _name in SKEWED:
    register(
        DataSet(
            _name,
            _skewed(ZIPF[_name]) if _name in ZIPF else _tenants(in_one_run=_name != TENANTS[0]),
            runs=_FOUR_RUNS,
            rates=(_SKEW_RATES, _SKEW_RATES),
            is_made=True,
        )
    )
VALUE_SIZES: Final = (0, 16, 100, 400, 1000, 4000, 8000)
VALUES: Final = {f"values-{size_bytes}": size_bytes for size_bytes in VALUE_SIZES}
"""The data sets of 16-byte keys with values of these sizes, by name."""

_REFERENCE_RATES: Final = (None, 0.01)
for _name, _size_bytes in VALUES.items():
    register(
        DataSet(
            _name,
            _cells(KEY_BYTES + _size_bytes),
            (20_000, 50_000),
            runs=((1,), (1,)),
            rates=(_REFERENCE_RATES, _REFERENCE_RATES),
        )
    )
RANGES: Final = {f"ranges-{key_bytes}": key_bytes for key_bytes in (8, 16, 32)}
"""The data sets of numbers of so many bytes, by name."""

PREFIXES: Final = {"prefix-256": 1, "prefix-65536": 2}
"""Bloom filters of prefixes, which so many numbers share: the bytes that a prefix leaves out."""

for _name, _key_bytes in RANGES.items():
    register(
        DataSet(
            _name,
            _numbers(_key_bytes),
            runs=_FOUR_RUNS,
            rates=((None, 0.001), (None, 0.01, 0.001, 0.0001)),
            is_made=True,
            policies=("bloom", *PREFIXES, "grafite"),
        )
    )
LIMITED: Final = "larger-than-memory"
_LIMITED_RATES: Final = (None, 0.1, 0.01)
register(
    DataSet(
        LIMITED,
        _cells(KEY_BYTES + 400),
        (
            350_000,
            3_000_000,
        ),  # 140 MiB and more: a process does not run in less than an eighth of it
        runs=_FOUR_RUNS,
        rates=(_LIMITED_RATES, _LIMITED_RATES),
        is_made=True,
        is_limited=True,
    )
)
GROUPS: Final = {
    "skew": SKEWED,
    "values": tuple(VALUES),
    "ranges": tuple(RANGES),
    LIMITED: (LIMITED,),
}
"""Data sets that are measured together, only when they are asked for, and have tables of their own."""

ASIDE: Final = frozenset(name for names in GROUPS.values() for name in names)
OWN: Final = DataSet(YOURS, lambda entries, seed: Content([]))
"""The shapes of the stores of one's own files."""
