"""The rows of ``filters``: one for each contender, number of keys and rate asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...harness.intervals import FEWEST_EVENTS, clustered_interval
from ...harness.records import Observation, column
from .contenders import CONTENDERS, Basis, Code, Group, contender_named
from .measure import Found


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Observation):
    """One configuration."""

    filter: str = column("the contender", kind="setting")
    group: Group = column(
        "store: a policy of lsmkv, as tables embed and ask it; package: a filter of lsmkv as an "
        "object; strategy: another way to hash in its Bloom filter; peer: another library's",
        kind="setting",
    )
    code: Code = column(
        "of this build of lsmkv. compiled: machine code probes the filter; partly: so it does, "
        "called by an interpreted object; interpreted: Python probes it",
        kind="setting",
    )
    key_count: int = column("keys in each filter", kind="setting")
    error_rate_requested: float = column("what its constructor was asked for", kind="setting")
    error_rate_exact: float = column("the rate in theory of the filter as built")
    error_rate_basis: Basis = column(
        "exact: proven; expected: a good approximation; ideal: of independent probes, which the "
        "filter may miss",
        kind="setting",
    )
    error_rate_measured: float = column("false positives by trials")
    error_rate_low: float = column("lower end of its 95 % interval")
    error_rate_high: float = column("upper end of its 95 % interval")
    exact_in_interval: bool = column("whether error_rate_exact lies in the interval")
    design_effect: float = column(
        "the measured rate's variance over that of as many independent trials, at least 1"
    )
    bits_per_key: float = column(
        "mean size of the bits, without the Python object around them",
        heading="bits/key",
        form=".2f",
    )
    lower_bound_bits_per_key: float | None = column(
        "log2(1/p) at the exact rate, or the measured one where the basis is ideal; empty if that "
        "is 0"
    )
    over_lower_bound: float | None = column(
        "bits_per_key over lower_bound_bits_per_key; empty if that comes of too few false positives",
        heading="of bound",
        form=".2f",
    )
    filter_count: int = column("filters filled")
    trial_count: int = column("absent keys asked for in all of them")
    false_positive_count: int = column("absent keys that passed")
    false_negative_count: int = column(
        "present keys denied, of up to 16 asked for in each filter; always 0"
    )
    add_ns_median: float = column(
        "nanoseconds to add a key; of static filters, a key's share of the build",
        kind="time",
        heading="add ns",
        form=",.0f",
    )
    query_present_ns_median: float = column(
        "nanoseconds to ask for a key that is there", kind="time", heading="present", form=",.0f"
    )
    query_absent_ns_median: float = column(
        "nanoseconds to ask for one that is not", kind="time", heading="absent", form=",.0f"
    )

    @property
    def rate(self) -> float:
        """The filter's rate: in theory, or as measured where it may miss the theory."""
        return (
            self.error_rate_measured if self.error_rate_basis == "ideal" else self.error_rate_exact
        )


def join(measured: Sequence[Found]) -> list[Row]:
    """A row for each configuration, in the same order."""
    return [_row(found) for found in measured]


def _row(found: Found) -> Row:
    what, counts, timings = found.what, found.counts, found.timings
    assert timings is not None, "rows are made after everything has been timed"
    contender = contender_named(what.contender)
    measured = clustered_interval(counts.hits, counts.per_filter)
    bits_per_key = counts.bits / len(counts.hits) / what.key_count
    # A contender that may miss its rate in theory is judged by the measured one.
    is_measured = contender.basis == "ideal"
    bound = _lower_bound(measured.rate if is_measured else counts.rate)
    is_told = not is_measured or sum(counts.hits) >= FEWEST_EVENTS
    return Row(
        filter=contender.name,
        group=contender.group,
        code=contender.code,
        key_count=what.key_count,
        error_rate_requested=what.error_rate,
        error_rate_exact=counts.rate,
        error_rate_basis=contender.basis,
        error_rate_measured=measured.rate,
        error_rate_low=measured.low,
        error_rate_high=measured.high,
        exact_in_interval=measured.low <= counts.rate <= measured.high,
        design_effect=measured.design_effect,
        bits_per_key=bits_per_key,
        lower_bound_bits_per_key=bound,
        over_lower_bound=bits_per_key / bound if bound and is_told else None,
        filter_count=len(counts.hits),
        trial_count=counts.trials,
        false_positive_count=sum(counts.hits),
        false_negative_count=counts.false_negatives,
        add_ns_median=timings.add,
        query_present_ns_median=timings.present,
        query_absent_ns_median=timings.absent,
    )


def _lower_bound(rate: float) -> float | None:
    """log2(1/p): no filter has fewer bits per key; None when no false positive was seen."""
    return -math.log2(rate) if 0.0 < rate < 1.0 else None


def key_counts(found: Sequence[Row]) -> list[int]:
    return sorted({row.key_count for row in found})


def error_rates(found: Sequence[Row]) -> list[float]:
    """The requested rates, highest first."""
    return sorted({row.error_rate_requested for row in found}, reverse=True)


def names(found: Sequence[Row]) -> list[str]:
    """The contenders with rows, in the order of the tables."""
    present = {row.filter for row in found}
    return [contender.name for contender in CONTENDERS if contender.name in present]


def rows_of(found: Sequence[Row], key_count: int, error_rate: float | None = None) -> list[Row]:
    """The rows of one number of keys, and one rate or all."""
    return [
        row
        for row in found
        if row.key_count == key_count and error_rate in (None, row.error_rate_requested)
    ]


def middle_rate(found: Sequence[Row]) -> float:
    """The middle one of the requested rates: 1 %."""
    rates = error_rates(found)
    return rates[len(rates) // 2]
