"""``python -m bench EXPERIMENT ...``: the measurements by name."""

from __future__ import annotations

import importlib
import sys
from typing import Final

EXPERIMENTS: Final = {
    "cluster-build": (
        "bench.cluster_build",
        "builds on a Dask cluster, and a model of what a billion keys take",
    ),
    "compaction": (
        "bench.experiments.compaction.experiment",
        "compaction styles over a sustained load: writes, space, reads",
    ),
    "count-reads": (
        "bench.count_reads",
        "read calls of any command and its children, by file, counted from outside",
    ),
    "figures": (
        "bench.experiments.figures.report",
        "figures that documents state, beside what comes out here",
    ),
    "filters": (
        "bench.experiments.filters.experiment",
        "every filter and its peers: size, error rate, speed",
    ),
    "granularity": (
        "bench.experiments.granularity.experiment",
        "a filter per block, per chunk or per table, at equal memory",
    ),
    "memory": (
        "bench.experiments.memory.experiment",
        "filters or block cache, in the same memory; cached filters",
    ),
    "openings": (
        "bench.experiments.openings.experiment",
        "the best error rate by lookups between two openings",
    ),
    "peers": (
        "bench.experiments.peers.experiment",
        "lsmkv beside RocksDB, LevelDB, LMDB and SQLite",
    ),
    "policies": (
        "bench.experiments.policies.experiment",
        "filter policies in the same memory: by tree, skew and shifting or repeated lookups",
    ),
    "reproduce": (
        "bench.experiments.reproduce.command",
        "every published section measured again, and what agreed",
    ),
    "saved-io": (
        "bench.experiments.saved_io.experiment",
        "disk reads saved as the false-positive rate varies",
    ),
    "saved-requests": (
        "bench.experiments.saved_requests.experiment",
        "GETs that filters save in object storage, beside SlateDB",
    ),
    "wasted-reads": (
        "bench.experiments.wasted_reads.experiment",
        "block reads of absent keys beside RocksDB and LevelDB, filters and index of the same bytes",
    ),
    "ycsb": (
        "bench.experiments.ycsb.experiment",
        "YCSB's workloads on lsmkv and other embedded stores",
    ),
}
"""Name -> module and summary.  A module has an ``EXPERIMENT`` or ``main(arguments)``, and is imported
only when it is run: experiments need different libraries."""

USAGE: Final = "usage: python -m bench {" + ",".join(EXPERIMENTS) + "} [OPTION ...]"


def main(arguments: list[str] | None = None) -> None:
    """Run the experiment that the first argument names with the others."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] in ("-h", "--help"):
        print(USAGE + "\n")
        for name, (_, summary) in EXPERIMENTS.items():
            print(f"  {name:<13} {summary}")
        print("\nOptions of one: python -m bench NAME --help")
        raise SystemExit(0 if given else 2)
    if given[0] not in EXPERIMENTS:
        raise SystemExit(f"bench: no experiment {given[0]!r}\n{USAGE}")
    try:
        module = importlib.import_module(EXPERIMENTS[given[0]][0])
    except ModuleNotFoundError as error:
        raise SystemExit(f"bench: {error.name} is missing: pip install 'lsmkv[bench]'") from error
    if hasattr(module, "EXPERIMENT"):
        importlib.import_module("bench.harness.experiment").main(module.EXPERIMENT, given[1:])
    else:
        module.main(given[1:])


if __name__ == "__main__":
    main()
