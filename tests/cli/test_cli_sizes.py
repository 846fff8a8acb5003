"""``lsmkv filter-size``."""

from __future__ import annotations

import random

import pytest
from click.testing import CliRunner

from lsmkv.cli.commands import cli
from lsmkv.cli.sizes import filter_size
from lsmkv.filters.maths.layouts import ribbon_bits_for
from lsmkv.filters.maths.sizing import exact_rate
from lsmkv.filters.policy import RIBBON


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["filter-size", *arguments])
    return result.exit_code, result.output


def test_keys_and_bits_give_the_error_rate() -> None:
    found = filter_size(30, 300, None)
    assert found.error_rate_exact == exact_rate(300, 30, found.probe_count)
    assert found.error_rate_classic < found.error_rate_exact


def test_a_ribbon_filter_of_the_same_rate_has_fewer_bits() -> None:
    found = filter_size(1000, None, 0.01)
    assert found.ribbon is not None
    assert (found.ribbon.columns, found.ribbon.error_rate) == (7, 2.0**-7)
    assert found.ribbon.bit_count == ribbon_bits_for(1000, 0.01)
    assert found.ribbon.bit_count < 0.8 * found.bit_count


def test_a_ribbon_filter_in_the_same_bits_has_the_most_columns_that_fit() -> None:
    found = filter_size(1000, 9586, None)
    assert found.ribbon is not None
    assert found.ribbon.bit_count <= 9586
    assert ribbon_bits_for(1000, found.ribbon.error_rate / 2) > 9586
    assert found.ribbon.error_rate < found.error_rate_exact / 4


def test_bits_and_error_rate_give_the_most_keys_of_a_ribbon_filter() -> None:
    found = filter_size(None, 9586, 0.01)
    assert found.ribbon is not None
    keys = found.ribbon.key_count
    assert found.ribbon.bit_count == ribbon_bits_for(keys, 0.01) <= 9586
    assert ribbon_bits_for(keys + 1, 0.01) > 9586
    assert keys > 1.2 * found.key_count


@pytest.mark.parametrize(
    ("keys", "bits", "error_rate"), [(1000, 500, None), (None, 16, 0.01), (10, None, 2.0**-32)]
)
def test_what_no_ribbon_filter_can_be_has_none(
    keys: int | None, bits: int | None, error_rate: float | None
) -> None:
    assert filter_size(keys, bits, error_rate).ribbon is None


def test_the_lowest_rate_of_a_ribbon_filter_has_all_columns() -> None:
    found = filter_size(10, None, 2.0**-31)
    assert found.ribbon is not None
    assert found.ribbon.columns == 31


@pytest.mark.parametrize("key_count", [30, 300])
def test_the_bits_of_the_ribbon_filter_are_nearly_those_that_the_policy_builds(
    key_count: int,
) -> None:
    draw, filters = random.Random(5), 100
    built = sum(
        len(RIBBON.build([draw.getrandbits(63) for _ in range(key_count)], 2.0**-7)[0])
        for _ in range(filters)
    )
    found = filter_size(key_count, None, 2.0**-7)
    assert found.ribbon is not None
    assert found.ribbon.bit_count == pytest.approx(8 * built / filters, rel=0.03)


@pytest.mark.parametrize("given", [("--error-rate", "0.1", "--keys"), ("--keys", "1", "--bits")])
def test_a_number_of_400_digits_is_wrong_usage(given: tuple[str, ...]) -> None:
    code, output = run(*given, "1" + "0" * 400)
    assert code == 2
    assert "\nError: " in output


def test_help_says_what_a_ribbon_filter_is() -> None:
    code, output = run("--help")
    assert code == 0
    assert 'filter_policy="ribbon"' in output
