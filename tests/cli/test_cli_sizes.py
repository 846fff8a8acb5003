"""``lsmkv filter-size``."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from lsmkv.cli import cli
from lsmkv.cli.sizes import filter_size
from lsmkv.filters.maths.sizing import exact_rate


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["filter-size", *arguments])
    return result.exit_code, result.output


def test_keys_and_error_rate_give_the_bits() -> None:
    found = filter_size(1000, None, 0.01)
    assert (found.bit_count, found.probe_count) == (9586, 7)


def test_keys_and_bits_give_the_error_rate() -> None:
    found = filter_size(30, 300, None)
    assert found.error_rate_exact == exact_rate(300, 30, found.probe_count)
    assert found.error_rate_classic < found.error_rate_exact


def test_bits_and_error_rate_give_the_keys() -> None:
    assert filter_size(None, 9586, 0.01).key_count == 1000


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--keys", "5", "--bits", "50", "--error-rate", "0.1"),
        ("--keys", "5", "--error-rate", "1"),
        ("--keys", "0", "--error-rate", "0.1"),
        ("--keys", "5", "--bits", "8", "--bytes", "1"),
        ("--bits", "1", "--error-rate", "0.0001"),
        ("--keys", "10"),
        ("--keys", "0", "--bits", "10"),
        ("--keys", "1" + "0" * 400, "--error-rate", "0.1"),
        ("--keys", "1", "--bits", "1" + "0" * 400),
    ],
)
def test_impossible_filter_arguments_are_wrong_usage(arguments: tuple[str, ...]) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert "\nError: " in output


def test_json_has_every_figure() -> None:
    code, output = run("--keys", "1000", "--bytes", "1200", "--json")
    assert code == 0
    figures = json.loads(output)
    assert figures["bit_count"] == 9600
    assert figures["lower_bound_bits_per_key"] < figures["bits_per_key"]


def test_the_text_names_keys_bits_probes_and_rates() -> None:
    code, output = run("--keys", "1000", "--error-rate", "0.01")
    assert code == 0
    assert "n = 1,000" in output and "m = 9,586" in output and "k = 7" in output
