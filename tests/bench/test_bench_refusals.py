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
        ("compaction", "--repetitions 0", "--repetitions: 0: must be 1 or more"),
        (
            "compaction",
            "--size-ratios 1",
            "--size-ratios: size_ratio=1: must lie between 2 and 100",
        ),
        ("compaction", "--error-rates 2", "--error-rates: 2: must lie between 0 and 1"),
        ("compaction", "--error-rates nan", "--error-rates: nan: must lie between 0 and 1"),
        ("compaction", "--write-buffers 15", "--write-buffers: 15: must be 16 or more"),
        ("memory", "--keys 10", "--keys: 10: must"),
        ("memory", "--parts split,nothing", "must be"),
        ("memory", "--lookups 0", "--lookups: 0: must"),
        ("memory", "--scale 0", "--scale: 0: must"),
        ("replay", "--engine mongo", "engine 'mongo': must be one of lsmkv, rocksdb,"),
        (
            "replay",
            "nowhere.csv --format yaml",
            "trace format 'yaml': must be one of auto, twitter,",
        ),
        ("replay", "--policies blum", "filter_policy='blum': must be one of 'auto', 'none'"),
        ("replay", "nowhere.csv", "nowhere.csv: No such file"),
        ("saved-requests", "--keys 10", "--keys: 10: must"),
        ("saved-requests", "--get-ms -1", "--get-ms: -1: must"),
        ("saved-requests", "--server minio", "--server: "),
        ("wasted-reads", "--bits 2", "--bits: 2: must"),
        ("wasted-reads", "--shapes words", "'words': must be of"),
        ("wasted-reads", "--entries 10", "--entries: 10: must"),
        ("wasted-reads", "--passes 0", "--passes: 0: must"),
        ("peers", "--compression lz4", "--compression: invalid choice: 'lz4'"),
        ("peers", "--background fork", "--background: invalid choice: 'fork'"),
        ("peers", "--bits-per-key -1", "--bits-per-key: -1: must be from 0 to 64"),
        ("peers", "--bits-per-key nan", "--bits-per-key: nan: must be from 0 to 64"),
        ("peers", "--cache-mib 0", "--cache-mib: 0: must be 1 or more"),
        ("peers", "--memory-mib 0", "--memory-mib: 0: must be 1 or more"),
        ("peers", "--passes 0", "--passes: 0: must be 1 or more"),
        ("peers", "--repetitions none", "--repetitions: invalid positive value: 'none'"),
        ("ycsb", "--records 0", "--records: 0: must be 1 or more"),
        ("ycsb", "--operations 0", "--operations: 0: must be 1 or more"),
        ("ycsb", "--repetitions x", "--repetitions: invalid"),
        ("ycsb", "--cache-size-mib 0", "--cache-size-mib: 0: must be 1 or more"),
        ("ycsb", "--write-buffer-size-mib x", "--write-buffer-size-mib: invalid"),
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
