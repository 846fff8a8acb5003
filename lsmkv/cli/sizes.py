"""Computes sizes and error rates of Bloom and ribbon filters."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

import click

from lsmkv.cli.output import percent, print_json
from lsmkv.cli.parameters import json_option
from lsmkv.filters.maths import layouts, sizing
from lsmkv.filters.maths.rates import keys_that_fit
from lsmkv.inspection.report import count, size

_LARGEST: Final = 1 << 64  # above any filter, and below what floats can hold


@dataclass(frozen=True, slots=True)
class RibbonSize:
    """A ribbon filter of n keys with r columns in m bits; some sets of keys need a byte more."""

    key_count: int
    bit_count: int
    columns: int
    error_rate: float
    bits_per_key: float


@dataclass(frozen=True, slots=True)
class FilterSize:
    """A Bloom filter of n keys in m bits; the ribbon filter of the same figures."""

    key_count: int
    bit_count: int
    probe_count: int
    error_rate_exact: float
    error_rate_classic: float
    bits_per_key: float
    lower_bound_bits_per_key: float
    ribbon: RibbonSize | None


def ribbon_size(keys: int | None, bits: int | None, error_rate: float | None) -> RibbonSize | None:
    """The ribbon filter with at most these bits or this rate; None if there is none."""
    if error_rate is not None and error_rate < layouts.ribbon_rate(layouts.MAX_RIBBON_COLUMNS):
        return None
    if keys is None:
        assert bits is not None and error_rate is not None
        keys = keys_that_fit(layouts.ribbon_bits_for, bits, error_rate)
    most = layouts.MAX_RIBBON_COLUMNS
    if error_rate is not None:
        most = layouts.ribbon_columns_for(error_rate)
    for columns in range(most if keys else 0, 0, -1):
        rate = layouts.ribbon_rate(columns)
        bit_count = layouts.ribbon_bits_for(keys, rate)
        if bits is None or bit_count <= bits:
            return RibbonSize(keys, bit_count, columns, rate, bit_count / keys)
    return None


def filter_size(keys: int | None, bits: int | None, error_rate: float | None) -> FilterSize:
    """The filter that two of the three describe; ValueError for impossible ones."""
    if max(keys or 0, bits or 0) > _LARGEST:
        raise ValueError(f"more than {_LARGEST:,} keys or bits are too many")
    if [keys, bits, error_rate].count(None) != 1:
        raise ValueError("give two of --keys, --bits and --error-rate")
    ribbon = ribbon_size(keys, bits, error_rate)
    if keys is None:
        assert bits is not None and error_rate is not None
        keys = sizing.keys_for(bits, error_rate)
    if bits is None:
        assert error_rate is not None
        bits = sizing.bits_for(keys, error_rate)
    if keys < 1 or bits < 1:
        raise ValueError(f"{keys} keys in {bits} bits: a filter needs at least one of each")
    probes = sizing.probes_for(bits, keys)
    exact = sizing.exact_rate(bits, keys, probes)
    return FilterSize(
        keys,
        bits,
        probes,
        exact,
        sizing.classic_rate(bits, keys, probes),
        bits / keys,
        sizing.lower_bound_bits(keys, exact) / keys if exact > 0 else float("inf"),
        ribbon,
    )


@click.command(
    "filter-size", short_help="Compute the size or error rate of a Bloom and a ribbon filter."
)
@click.option("--keys", type=click.IntRange(min=1), metavar="N", help="Number of keys, n.")
@click.option("--bits", type=click.IntRange(min=1), metavar="M", help="Size in bits, m.")
@click.option(
    "--error-rate",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="P",
    help="False-positive rate, p.",
)
@json_option("Print JSON.")
def command(
    keys: int | None,
    bits: int | None,
    error_rate: float | None,
    as_json: bool,
) -> None:
    """Compute a Bloom filter from two of keys, bits, error rate.

    Prints the third, the best number of probes, the exact error rate (Bose et al. 2008), the error rate
    by the usual formula, and the fewest bits that any filter of that rate needs.

    Beside it stands the ribbon filter (filter_policy="ribbon") of the same two: its rate is a power of
    two, the one asked for or the next lower one. Some sets of keys need a byte or so more.
    Tables mix two rates of small filters, so that their mean is the one asked for.

    \b
    Example:  lsmkv filter-size --keys 1000000 --error-rate 0.001
              lsmkv filter-size --keys 30 --bits 300
              lsmkv filter-size --bits 32768 --error-rate 0.01
    """
    try:
        found = filter_size(keys, bits, error_rate)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        print_json(asdict(found))
        return
    click.echo(f"keys          n = {found.key_count:,}")
    click.echo(f"bits          m = {found.bit_count:,} ({size(-(-found.bit_count // 8))})")
    click.echo(f"probes        k = {found.probe_count}")
    click.echo(
        f"error rate    p = {percent(found.error_rate_exact)} % exact, "
        f"{percent(found.error_rate_classic)} % by the usual formula"
    )
    click.echo(
        f"bits per key      {found.bits_per_key:.2f}; no filter of this rate needs less than "
        f"{found.lower_bound_bits_per_key:.2f}"
    )
    click.echo(_ribbon_text(found.ribbon))


def _ribbon_text(ribbon: RibbonSize | None) -> str:
    if ribbon is None:
        return (
            "ribbon        none: it has 1 to 31 columns, a slot in each for every key and some more"
        )
    return (
        f"ribbon        n = {ribbon.key_count:,}, m = {ribbon.bit_count:,} "
        f"({size(ribbon.bit_count // 8)}), p = {percent(ribbon.error_rate)} %, "
        f"{count(ribbon.columns, 'column')}; {ribbon.bits_per_key:.2f} bits per key"
    )
