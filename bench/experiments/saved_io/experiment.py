"""The experiment ``saved-io``: its options, its configurations and its method."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from lsmkv.filters.policy import NONE, policy_named
from lsmkv.options import KIB

from ...harness.experiment import Experiment, Plan, at_least
from ...harness.seeds import Figure
from ...workloads.key_files import KeyFiles
from .datasets import (
    ASIDE,
    DIGITS,
    GROUPS,
    OWN,
    RANGES,
    YOURS,
    DataSet,
    content,
    data_set_named,
    data_sets,
)
from .measure import measure
from .ranges import rates_of_ranges
from .rows import Row, join
from .story import HEADLINE_RATES, story
from .tasks import EqualTask, StoreTask, Task

ERROR_RATES: Final = (None, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001, 0.0001)
"""Requested rates; None: no filters."""

_COMPARED_RUNS: Final = 4
_COMPARED_LOOKUPS: Final = 5  # times as many as for other rows
_LEAST_ENTRIES: Final = 100
_LEAST_LOOKUPS: Final = 10  # a tenth of them is timed
_MOST_TIMED: Final = 100_000  # of a trace
_VALUE_BYTES: Final = 100
_MINUTE_ENTRIES: Final = 20_000


def _number_or_file(text: str) -> int | str:
    return at_least(_LEAST_LOOKUPS)(text) if text.isdecimal() else text


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--entries",
        type=at_least(_LEAST_ENTRIES),
        help="entries of a store of 'digits' (default: 50,000 or 500,000) or 'hbase' (default: 64 MiB or "
        "1 GiB of cells); 'paths' and --keys have what there is",
    )
    parser.add_argument(
        "--lookups",
        type=_number_or_file,
        metavar="N|FILE",
        help="lookups that are counted for each hit ratio, of which the first are timed too (default: "
        "10,000 or 100,000); or a file of the keys that are looked up, with --keys",
    )
    parser.add_argument(
        "--keys",
        metavar="FILE",
        help="your own keys in place of the data sets: a file or a pipe of one key on each line, .csv, "
        ".tsv or .jsonl, also packed by gzip",
    )
    parser.add_argument(
        "--key-field",
        metavar="NAME|N",
        help="field of --keys and --lookups that is the key; a number: column of a file without header",
    )
    parser.add_argument(
        "--value-bytes",
        type=at_least(0),
        default=_VALUE_BYTES,
        metavar="N",
        help="size of a value of --keys where the file tells none; default: %(default)s",
    )
    parser.add_argument(
        "--minute",
        action="store_true",
        help="the least part, for a class: 'digits' or your own keys in 4 KiB blocks and 4 runs, counted "
        "only; takes about a minute on two idle cores",
    )
    parser.add_argument(
        "--counts-only", action="store_true", help="no timed lookups, and no count by the system"
    )
    parser.add_argument(
        "--datasets",
        help="data sets, separated by commas ('skew', 'values', "
        "'ranges', 'larger-than-memory': popular stretches of keys and a hot tenant, several value "
        "sizes, scans with both bounds, times in a control group of an eighth of the data); default: "
        "all but the last four, or with --keys those alone",
    )
    parser.add_argument(
        "--policies",
        default="bloom",
        help="filter policies, separated by commas; default: %(default)s",
    )


def tasks(plan: Plan) -> list[Task]:
    if plan.options.minute:
        if plan.options.datasets:
            raise SystemExit(
                "bench: --minute has its own data set, or --keys: leave out --datasets"
            )
        return list(_of_a_minute(plan))
    return _every_task(plan)


def _of_a_minute(plan: Plan) -> Iterator[Task]:
    """The quick stores that the first table and the first chart show, smaller."""
    given = argparse.Namespace(**vars(plan.options))
    given.counts_only = True
    if own_files(plan) is None:
        given.datasets = DIGITS
        given.entries = given.entries or _MINUTE_ENTRIES
        given.lookups = given.lookups or _MINUTE_ENTRIES
    for task in _every_task(replace(plan, quick=True, options=given)):
        if (task.block_size_bytes, task.runs) != (4 * KIB, 4):
            continue
        if isinstance(task, EqualTask) or task.error_rate in (None, *HEADLINE_RATES):
            yield task


def _every_task(plan: Plan) -> list[Task]:
    wanted = _wanted(plan)
    policies = plan.options.policies.split(",")
    for policy in policies:
        _check_policy(policy)
    own = [each.policies for each in data_sets() if each.name in wanted]
    found: list[Task] = []
    for policy in dict.fromkeys(chain(policies, *own)):
        asked = [name for name in wanted if policy in (_data_set(name).policies or policies)]
        found += _stores(plan, asked, policy)
    return [*found, *(_comparisons(plan) if DIGITS in wanted else ())]


def _wanted(plan: Plan) -> list[str]:
    """The names of the data sets; exits with a message if one cannot be."""
    own = own_files(plan)
    known = [each.name for each in data_sets()]
    given = plan.options.datasets
    named = given.split(",") if given else [] if own else [n for n in known if n not in ASIDE]
    wanted = [name for group in named for name in GROUPS.get(group, (group,))]
    unknown = set(wanted) - set(known)
    if unknown:
        raise SystemExit(
            f"bench: no data set {', '.join(sorted(unknown))}: must be of "
            f"{', '.join((*known, *GROUPS))}"
        )
    if own is None:
        return wanted
    try:
        content(YOURS, 0, plan.seed, own)
    except OSError as error:
        raise SystemExit(f"bench: {error.filename!r}: {error.strerror}") from error
    except ValueError as error:
        raise SystemExit(f"bench: {error}") from error
    return [YOURS, *wanted]


def own_files(plan: Plan) -> KeyFiles | None:
    """The files of ``--keys`` and ``--lookups``, which need each other."""
    given = plan.options
    if given.keys is None and not isinstance(given.lookups, str):
        return None
    if given.keys is None or not isinstance(given.lookups, str):
        raise SystemExit("bench: --keys FILE and --lookups FILE: must be given together")
    if given.jobs > 1:
        for path in (given.keys, given.lookups):
            if os.path.exists(path) and not os.path.isfile(path):
                raise SystemExit(f"bench: {path}: no regular file, which --jobs {given.jobs} needs")
    return KeyFiles(given.keys, given.lookups, given.value_bytes, given.key_field)


def _check_policy(name: str) -> None:
    """Exit with a message unless ``name`` is a policy that has filters."""
    try:
        policy_named(name)
    except ValueError as error:
        raise SystemExit(f"bench: --policies: {error}") from error
    if name == NONE.name:
        raise SystemExit("bench: --policies none: stores without filters are in every run")


def _comparisons(plan: Plan) -> Iterator[EqualTask]:
    """Ribbon beside Bloom in four runs, with more lookups, which make intervals of low rates narrow."""
    for kib in _block_kib(plan):
        yield EqualTask(
            DIGITS, _entries(plan), kib * KIB, _COMPARED_RUNS,
            _COMPARED_LOOKUPS * _lookups(plan), plan.seed,
        )  # fmt: skip


def _entries(plan: Plan) -> int:
    return plan.options.entries or (50_000 if plan.quick else 500_000)


def _lookups(plan: Plan) -> int:
    given = plan.options.lookups
    return given if isinstance(given, int) else 10_000 if plan.quick else 100_000


def _block_kib(plan: Plan) -> Sequence[int]:
    return data_set_named(DIGITS).block_kib[not plan.quick]


def _stores(plan: Plan, wanted: Sequence[str], policy: str) -> Iterator[StoreTask]:
    ratios = (0.0, 0.5, 1.0) if plan.quick else (0.0, 0.1, 0.5, 0.9, 1.0)
    for name in wanted:
        own = own_files(plan) if name == YOURS else None
        data_set = _data_set(name)
        lookups = _MOST_TIMED if own else _lookups(plan)
        cold = 0 if plan.options.counts_only else lookups // 10
        limited = None
        if data_set.is_limited and cold:
            cold, limited = 0, lookups // 5
        # What a data set has by nature has no number to be chosen.
        entries = plan.options.entries if data_set.is_made else None
        for kib in data_set.block_kib[not plan.quick]:
            for runs in data_set.runs[not plan.quick]:
                rates = data_set.rates[not plan.quick] or ERROR_RATES
                for rate in rates_of_ranges(policy, rates) if name in RANGES else rates:
                    yield StoreTask(
                        name, entries or data_set.entries[not plan.quick], kib * KIB, runs, policy,
                        rate, ratios, lookups, cold, plan.seed, own, limited,
                    )  # fmt: skip


def _data_set(name: str) -> DataSet:
    return OWN if name == YOURS else data_set_named(name)


EXPERIMENT: Final[Experiment[Task, list[Row], Row]] = Experiment(
    name="saved-io",
    title="Disk reads saved by block filters",
    question="How many disk reads does a filter in every block save, as its false-positive rate p "
    "varies, and what does it cost?",
    method=(
        "Each store's entries go, in a seeded random order, to a number of sorted runs that all "
        "span the whole range of keys. Tables are uncompressed, with fit_pages=False: the rows "
        "without filters have the same blocks, which is checked.",
        "Absent keys lie just after present ones, so that no range of a table answers for the "
        "filter. No key is looked up twice while there are enough.",
        "The block cache is off: each search of a block is a read. Net of filters: less their load "
        "at the opening, once for these lookups: one read call for each table, and the whole 4 KiB "
        "pages that reads touch. Net of the index too: less the pages of indexes, properties and "
        "footers, which stores without filters load as well. A second count asks each table's index "
        "and filters once for each key, and must agree with the store's counters.",
        "Ribbon beside Bloom: Bloom filters of 1 %; ribbon filters of 1 %; and ribbon filters of "
        "the lowest rate whose bytes are not more than the Bloom filters'. The interval of their "
        "ratio takes each count for a binomial one with the design effect of its rate.",
        "Cold lookups read with O_DIRECT; the bytes that lsmkv counted, opening included, are "
        "held against the operating system's count for the thread. Where they differ by more than "
        "1 % the command fails.",
        "Exact rates are E[(X/m)^k] with X the number of distinct bits set (Bose et al. 2008), "
        "for each block, weighted by its keys. Measured rates are false positives over all times "
        "a filter was asked for a key that it does not hold. A block's filter is a cluster of "
        "trials: 95 % intervals are Clopper and Pearson's for the effective number of trials "
        "(Korn and Graubard 1998).",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=join,
    story=story,
    libraries=("numpy", "matplotlib"),
    add_options=add_options,
    figures=(Figure("false-positive rate", "filter_false_positives", "filter_trials"),),
)
