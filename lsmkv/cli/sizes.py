"""A calculator: the size and error rate of a Bloom filter."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

import click

from lsmkv.cli.output import percent, print_json, size
from lsmkv.filters.maths.sizing import (
    bits_for,
    classic_rate,
    exact_rate,
    keys_for,
    lower_bound_bits,
    probes_for,
)

_LARGEST: Final = 1 << 64  # far above any filter, far below what floats can hold


@dataclass(frozen=True, slots=True)
class FilterSize:
    """One filter: n keys in m bits with k probes, and what comes of it."""

    key_count: int
    bit_count: int
    probe_count: int
    error_rate_exact: float
    error_rate_classic: float
    bits_per_key: float
    lower_bound_bits_per_key: float


def filter_size(keys: int | None, bits: int | None, error_rate: float | None) -> FilterSize:
    """The filter that two of the three describe.

    Raises:
        ValueError: not two of them are given, they describe no filter, or one that is too large.
    """
    for name, number in (("--keys", keys), ("--bits", bits)):
        if number is not None and number > _LARGEST:
            raise ValueError(f"{name}: it is larger than {_LARGEST:,}; give a smaller number")
    given = [keys, bits, error_rate]
    if given.count(None) != 1:
        raise ValueError("give two of --keys, --bits (or --bytes) and --error-rate")
    if error_rate is not None and not 0.0 < error_rate < 1.0:
        raise ValueError(f"--error-rate {error_rate}: must lie between 0 and 1, both excluded")
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


@click.command("filter-size", short_help="Work out the size or error rate of a Bloom filter.")
@click.option("--keys", type=int, metavar="N", help="Distinct keys, n.")
@click.option("--bits", type=int, metavar="M", help="Size in bits, m.")
@click.option("--bytes", "byte_count", type=int, metavar="B", help="Size in bytes, for --bits.")
@click.option("--error-rate", type=float, metavar="P", help="False-positive rate, as in 0.01.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    keys: int | None,
    bits: int | None,
    byte_count: int | None,
    error_rate: float | None,
    as_json: bool,
) -> None:
    """Work out a Bloom filter from two of its keys, bits and error rate.

    Prints the third, the best number of probes, the exact error rate (Bose et al. 2008) beside the
    usual formula's, and the fewest bits that any filter of that rate could do with.

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
