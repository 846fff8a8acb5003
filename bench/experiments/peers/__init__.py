"""``python -m bench peers``: lsmkv beside RocksDB, LevelDB, LMDB and SQLite, phase by phase.

The measured processes import parts of this package, so it imports nothing by itself.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str]) -> None:
    """The command: measure, write, and say what came out."""
    from bench.experiments.peers.experiment import EXPERIMENT
    from bench.harness import experiment

    experiment.main(EXPERIMENT, arguments)
