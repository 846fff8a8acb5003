"""What a filter saves, and what a wrong one costs: the toy, whole and broken in six ways.

4,000 keys are put into 8 runs, 500 into each, some 33 of them to a block.  Then 2,000 keys are looked up
that are not there, and 500 that are.  Each row swaps a function or a number of ``toy.py``.  Add one.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import toy

RUNS, KEYS_PER_RUN, ABSENT, PRESENT = 8, 500, 2000, 500

build_filter, may_contain = toy.build_filter, toy.may_contain
ROWS: list[tuple[str, int, dict[str, Any]]] = [
    ("no filter", RUNS, {"build_filter": lambda keys: b""}),
    ("10 bits a key, 7 probes: as it is", RUNS, {}),
    ("10 bits a key, 1 probe", RUNS, {"PROBES": 1}),
    ("2 bits a key, 7 probes", RUNS, {"BITS_PER_KEY": 2}),
    (
        "last key of each block left out",
        RUNS,
        {"build_filter": lambda keys: build_filter(keys[:-1])},
    ),
    ("yes and no swapped", RUNS, {"may_contain": lambda *asked: not may_contain(*asked)}),
    ("no filter, one run", 1, {"build_filter": lambda keys: b""}),
    ("as it is, one run", 1, {}),
]


def measured(path: Path, runs: int) -> tuple[int, int, int]:
    """Blocks read for keys that are not there, for keys that are, and how many of these are not found."""
    draw = random.Random(1)
    store = toy.Store(path)
    keys = [
        b"%08x" % number for number in draw.sample(range(1 << 32), RUNS * KEYS_PER_RUN + ABSENT)
    ]
    absent, present = keys[:ABSENT], keys[ABSENT:]
    for number, key in enumerate(present, 1):
        store.put(key, b"v" * 100)
        if number % KEYS_PER_RUN == 0:
            store.flush()
    if runs == 1:
        store.compact()
    for key in absent:
        store.get(key)
    reads = sum(table.blocks_read for table in store.tables)
    lost = sum(store.get(key) is None for key in draw.sample(present, PRESENT))
    for_present = sum(table.blocks_read for table in store.tables) - reads
    store.close()
    return reads, for_present, lost


# Put a row of yours here: ROWS.append(...)


def main() -> None:
    print(f"{'':34}{'reads for':>14}{'reads for':>13}{'lost of':>10}")
    print(
        f"{'filter':34}{f'{ABSENT:,} absent':>14}{f'{PRESENT} present':>13}{f'{PRESENT} keys':>10}"
    )
    for name, runs, swapped in ROWS:
        with tempfile.TemporaryDirectory() as directory, patch.dict(vars(toy), swapped):
            reads, for_present, lost = measured(Path(directory), runs)
        print(f"{name:34}{reads:>14,}{for_present:>13,}{lost:>10}")


if __name__ == "__main__":
    main()
