"""Computes the size or the error rate of a Bloom filter."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

import click

from lsmkv.cli.output import percent, print_json, size
from lsmkv.cli.parameters import json_option
from lsmkv.filters.maths.sizing import (
    bits_for,
    classic_rate,
    exact_rate,
    keys_for,
    lower_bound_bits,
    probes_for,
)

_LARGEST: Final = 1 << 64  # above any filter, and below what floats can hold


@dataclass(frozen=True, slots=True)
class FilterSize:
    """A filter of n keys in m bits with k probes."""

    key_count: int
    bit_count: int
    probe_count: int
    error_rate_exact: float
    error_rate_classic: float
    bits_per_key: float
    lower_bound_bits_per_key: float


def filter_size(keys: int | None, bits: int | None, error_rate: float | None) -> FilterSize:
    """The filter that two of the three describe; ValueError for impossible ones."""
    if max(keys or 0, bits or 0) > _LARGEST:
        raise ValueError(f"more than {_LARGEST:,} keys or bits are too many")
    if [keys, bits, error_rate].count(None) != 1:
        raise ValueError("give two of --keys, --bits (or --bytes) and --error-rate")
    if keys is None:
        assert bits is not None and error_rate is not None
        keys = keys_for(bits, error_rate)
    if bits is None:
        assert error_rate is not None
        bits = bits_for(keys, error_rate)
    if keys < 1 or bits < 1:
        raise ValueError(f"{keys} keys in {bits} bits: a filter needs at least one of each")
    probes = probes_for(bits, keys)
    exact = exact_rate(bits, keys, probes)
    return FilterSize(
        keys,
        bits,
        probes,
        exact,
        classic_rate(bits, keys, probes),
        bits / keys,
        lower_bound_bits(keys, exact) / keys if exact > 0 else float("inf"),
    )


@click.command("filter-size", short_help="Compute the size or error rate of a Bloom filter.")
@click.option("--keys", type=click.IntRange(min=1), metavar="N", help="Number of keys, n.")
@click.option("--bits", type=click.IntRange(min=1), metavar="M", help="Size in bits, m.")
@click.option(
    "--bytes", "byte_count", type=click.IntRange(min=1), metavar="B", help="Size in bytes."
)
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
    byte_count: int | None,
    error_rate: float | None,
    as_json: bool,
) -> None:
    """Compute a Bloom filter from two of keys, bits, error rate.

    Prints the third, the best number of probes, the exact error rate (Bose et al. 2008), the error rate
    by the usual formula, and the fewest bits that any filter of that rate needs.

    \b
    Example:  lsmkv filter-size --keys 1000000 --error-rate 0.001
              lsmkv filter-size --keys 30 --bytes 38
              lsmkv filter-size --bytes 4096 --error-rate 0.01
    """
    if bits is not None and byte_count is not None:
        raise click.UsageError("give --bits or --bytes, not both")
    try:
        found = filter_size(keys, byte_count * 8 if byte_count is not None else bits, error_rate)
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
