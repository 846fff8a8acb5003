"""The experiment ``memory``: its options and its method."""

from __future__ import annotations

import argparse
from typing import Final

from ...harness.experiment import Experiment, at_least, flattened, names_of, positive
from ...harness.seeds import Figure
from .measure import measure
from .rows import Row
from .story import story
from .tasks import PARTS, Task, tasks

_LEAST_KEYS: Final = 500


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--parts",
        type=names_of(PARTS),
        default=PARTS,
        metavar="P,..",
        help=f"of {', '.join(PARTS)}; default: all",
    )
    parser.add_argument(
        "--keys",
        type=at_least(_LEAST_KEYS),
        help="entries of the stores; the residencies have twice as many; default: 20,000 or 100,000",
    )
    parser.add_argument(
        "--lookups",
        type=positive,
        help="lookups counted for each row, ten times as many where filters spare nearly all reads; "
        "default: 2000 or 10,000",
    )
    parser.add_argument(
        "--runs",
        type=positive,
        action="append",
        help="runs of the stores whose memory is split; may be repeated; default: 1, or 1 and 4",
    )
    parser.add_argument(
        "--scale", type=positive, help="divides the preset's keys and cache; default: 16 or 1"
    )


EXPERIMENT: Final[Experiment[Task, list[Row], Row]] = Experiment(
    name="memory",
    title="Filters or block cache: what to do with the memory",
    question="Memory for filters is memory that the block cache does not get. How should a memory be "
    "split between them, and when does it pay to keep filters in the cache?",
    method=(
        "Entries have 16-byte keys and 100-byte values. A lookup asks for a present key, or for "
        "an absent one between two present ones: uniform, zipfian with the exponent 0.99, or of a "
        "hot set (90 % of the lookups ask for a scattered 1 % of the keys). Popular absent keys "
        "are others than popular present ones. Figures are medians of repetitions, with least and "
        "most.",
        "Steady state: present keys are looked up until the block cache evicts, then the workload "
        "runs (where present keys share a memory, ten times as long as what is counted), and once "
        "more with other draws, which is counted.",
        "Equal memory (`split`): a budget is a share of the bytes of all entries, for resident "
        "filters, indexes, block and entry cache together. Ribbon filters come as close as they can "
        "to the bytes of Bloom filters of each rate, never above. RocksDB has the same entries in "
        "one run; its tables' memory as it reports it, its block and row cache are its part.",
        "Residency (`residency`): Bloom filters of 1 %, blocks of 4 and of 64 KiB. Out of the "
        "same memory, the cache gets what resident filters leave. Cached filters are read in "
        "chunks; one filter per table is one chunk. Preset (`preset`): `Options.small_memory()`, "
        "compressed blocks, one run in tables of 4 MiB, with cached filters, none and resident "
        "ones.",
        "Bytes are of the 4 KiB pages that reads touch. Some lookups are repeated with direct "
        "reads, for which the store itself counts whole pages: both counts must agree, or the "
        "command fails, as it does if an answer is wrong.",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=flattened,
    story=story,
    libraries=("numpy", "matplotlib", "rocksdict"),
    add_options=add_options,
    repetitions=(1, 3),
    pools=True,
    figures=(Figure("reads of a lookup", "reads", "lookup_count", "independent_lookups"),),
)
