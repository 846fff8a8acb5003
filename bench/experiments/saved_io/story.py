"""The story of ``saved-io``: which tables and charts there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lsmkv.explore.intervals import CONFIDENCE

from ...harness.intervals import at_most, rate_interval
from ...harness.story import Story
from . import aside, tables
from .charts import charts
from .datasets import ASIDE, DIGITS
from .equal_story import equal_story
from .limited import limited_story
from .ranges import range_story
from .rows import DRAWN, REFERENCE_RATE, TRACE, Row

HEADLINE_RATES: Final = (0.1, 0.01, 0.001, 0.0001)  # the rates of the first table
HEADLINE_RUNS: Final = 4

_CHANCE: Final = 1e-5  # less likely is no chance

BAR: Final = 0.99  # the share of the reads of absent lookups that filters of 1 % must save


def story(rows: Sequence[Row]) -> Story:
    """Tables and charts, all computed from ``rows``."""
    rows = _one_store_each(rows)
    beside = [row for row in rows if row.dataset in ASIDE]
    rows = [row for row in rows if row.dataset not in ASIDE]
    stores = [row for row in rows if row.is_store]
    failures = _miscounted(beside)
    first, found = None, []
    if stores:
        # Theory speaks of many keys that are asked alike: lookups of one's own may be of any kind.
        theirs = [row for row in stores if row.lookups_of == DRAWN]
        for policy in dict.fromkeys(row.filter_policy for row in theirs):
            failures += _saves_little([row for row in theirs if row.filter_policy == policy])
        failures += [*_rates(theirs), *_disagreements(stores)]
        failures += [*_miscounted(stores), *_below_bound(theirs)]
        absent = [row for row in stores if not row.hit_ratio]
        asked = headline_rows(stores)
        first = tables.headline(asked) if asked else None
        if asked:
            found.append(aside.on_devices(with_bases(asked, stores)))
        if absent:
            found.append(tables.summary(absent))
    even = [row for row in stores if row.dataset == DIGITS and not row.hit_ratio]
    found += [*aside.skew(beside, even), *aside.value_sizes(beside)]
    for told in (range_story(beside), limited_story(beside), equal_story(rows)):
        found += told[0]
        failures += told[1]
    drawn = charts(stores, headline_rows(stores))
    return Story(found, drawn, failures, first, _headline(stores))


def _one_store_each(rows: Sequence[Row]) -> list[Row]:
    """The rows, without those of filters that came out the same at several rates asked for."""
    kept: dict[tuple[object, ...], Row] = {}
    for row in rows:
        rate = row.error_rate_exact if row.is_store else row.comparison
        asked = row.error_rate_requested if rate is None else None
        found = (*_shape(row), row.lookups_of, row.hit_ratio, rate, asked, row.filter_bytes)
        kept.setdefault((*found, row.range_numbers, row.correlation), row)
    return list(kept.values())


def _headline(stores: Sequence[Row]) -> str:
    """What filters of 1 % save, of the first policy: of a trace's reads, or of those of absent keys."""
    rows = [
        row
        for row in stores
        if row.error_rate_requested == REFERENCE_RATE
        and row.filter_policy == stores[0].filter_policy
    ]
    for row in headline_rows(rows):
        if row.lookups_of == TRACE:
            return (
                f"Filters of 1 % save {row.reads_saved_gross_share or 0.0:.2%} of the "
                f"{row.data_block_reads_unfiltered:,} block reads of these lookups "
                f"({tables.shape_name(row)})."
            )
    pooled = _pooled(_at_reference(rows, 0.0))
    if pooled is None:
        return ""
    asked, left, low, high = pooled
    return (
        f"Filters of 1 % save {1 - left / asked:.2%} of the disk reads of absent keys (95 % interval "
        f"{1 - high:.2%} to {1 - low:.2%}; {rows[0].filter_policy})."
    )


def headline_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows of :data:`HEADLINE_RATES`, of a trace or absent keys, in stores of one shape."""
    here = [
        row
        for row in rows
        if row.is_store
        and (row.lookups_of == TRACE or not row.hit_ratio)
        and row.error_rate_requested in HEADLINE_RATES
    ]
    if not here:
        return []
    best = min(
        here,
        key=lambda row: (
            row.lookups_of != TRACE,
            row.dataset != DIGITS,
            row.block_size_bytes,
            row.run_count != HEADLINE_RUNS,
        ),
    )
    return [
        row
        for row in here
        if row.lookups_of == best.lookups_of and tables.shape_name(row) == tables.shape_name(best)
    ]


def with_bases(asked: Sequence[Row], stores: Sequence[Row]) -> list[Row]:
    """The same, after those of the same lookups without filters."""
    bases = [
        row
        for row in stores
        if row.error_rate_requested is None
        and _shape(row) == _shape(asked[0])
        and (row.lookups_of, row.hit_ratio) == (asked[0].lookups_of, asked[0].hit_ratio)
    ]
    return [*bases, *asked]


def _shape(row: Row) -> tuple[object, ...]:
    return row.dataset, row.filter_policy, row.block_size_bytes, row.run_count


def _at_reference(rows: Sequence[Row], hit_ratio: float) -> list[Row]:
    return [
        row
        for row in rows
        if row.error_rate_requested == REFERENCE_RATE and row.hit_ratio == hit_ratio
    ]


def _pooled(rows: Sequence[Row]) -> tuple[int, int, float, float] | None:
    """Reads without filters and with, and the interval of the share that is left."""
    asked = sum(row.data_block_reads_unfiltered or 0 for row in rows)
    if not asked:
        return None
    left = sum(row.data_block_reads or 0 for row in rows)
    # The stores have different filters: their variances add up.
    weighed = sum((row.data_block_reads_unfiltered or 0) * (row.design_effect or 1) for row in rows)
    return asked, left, *rate_interval(left, asked, effective=asked * asked / weighed)


def _saves_little(stores: Sequence[Row]) -> list[str]:
    """Whether filters of 1 % save less than :data:`BAR`, beyond what chance explains."""
    pooled = _pooled(_at_reference(stores, 0.0))
    if pooled is None:
        return []
    asked, left, low, _ = pooled
    if 1 - low >= BAR:
        return []
    policy = stores[0].filter_policy
    return [f"{policy}: filters of 1 % save only {1 - left / asked:.2%} of absent reads"]


def _rates(stores: Sequence[Row]) -> list[str]:
    """Whether fewer intervals hold the exact rate than chance explains."""
    judged = [row for row in stores if row.error_rate_measured is not None and not row.hit_ratio]
    holding = sum(row.holds_exact for row in judged)
    if not judged or at_most(holding, len(judged), CONFIDENCE) >= _CHANCE:
        return []
    return [
        f"the exact rate lies in only {holding} of {len(judged)} 95 % intervals: the theory or the "
        "intervals are wrong"
    ]


def _below_bound(stores: Sequence[Row]) -> list[str]:
    return [
        f"{tables.shape_name(row)}, p {row.error_rate_requested}: a measured rate up to "
        f"{row.error_rate_high or 0.0:.3%} is below the bound of any filter of "
        f"{row.filter_bits_per_key:.2f} bits per key"
        for row in stores
        if row.error_rate_high is not None and row.error_rate_high < 2.0**-row.filter_bits_per_key
    ]


def _miscounted(stores: Sequence[Row]) -> list[str]:
    return [
        f"{tables.shape_name(row)}, p {row.error_rate_requested}, hits {row.hit_ratio}: the store's "
        f"counters are off by {row.miscounted} from a second count"
        for row in stores
        if row.miscounted
    ]


def _disagreements(stores: Sequence[Row]) -> list[str]:
    """The stores of whose bytes the operating system counts over 1 % more or less."""
    return [
        f"{row.dataset}, {row.block_size_bytes} byte blocks, {row.run_count} runs, p "
        f"{row.error_rate_requested}, hits {row.hit_ratio}: {row.counted_read_bytes:,} bytes counted, "
        f"{row.os_read_bytes:,} by the operating system"
        for row in stores
        if row.os_check == "FAILED"
    ]
