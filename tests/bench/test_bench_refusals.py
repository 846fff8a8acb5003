"""Values that no experiment can measure are refused by name, before any work."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.__main__ import main


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("saved-io", "--repetitions 0", "--repetitions: 0: must be 1 or more"),
        ("saved-io", "--entries 99", "--entries: 99: must be 100 or more"),
        ("saved-io", "--lookups 9", "--lookups: 9: must be 10 or more"),
        (
            "saved-io",
            "--policies blum",
            "--policies: filter policy 'blum': must be one of none, bloom",
        ),
        ("saved-io", "--policies none", "--policies none: stores without filters are in every run"),
        ("compaction", "--repeat 0", "--repeat: 0: must be 1 or more"),
        (
            "compaction",
            "--size-ratios 1",
            "--size-ratios: size_ratio=1: must lie between 2 and 100",
        ),
        ("compaction", "--error-rates 2", "--error-rates: 2: must lie between 0 and 1"),
        ("compaction", "--error-rates nan", "--error-rates: nan: must lie between 0 and 1"),
        ("compaction", "--write-buffers 15", "--write-buffers: 15: must be 16 or more"),
        ("policies", "--keys 299", "--keys: 299: must be 300 or more"),
        ("policies", "--parts tree", "--parts: 'tree': must be of trees, skew, shift, repeats"),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_option(
    name: str, options: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--quick", "--out", str(tmp_path), *options.split()])
    assert said in f"{ended.value} {capsys.readouterr().err}"
    assert list(tmp_path.iterdir()) == []
