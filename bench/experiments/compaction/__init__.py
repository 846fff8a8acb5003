"""Compaction styles over a sustained load: what each writes, keeps and reads.

``python -m bench compaction``.  The load is in :mod:`bench.experiments.compaction.loads`, what is
counted in :mod:`bench.experiments.compaction.measure`, the theory in
:mod:`bench.harness.write_cost`, the rule by which a default is chosen in
:mod:`bench.experiments.compaction.decision`.
"""

from bench.experiments.compaction.experiment import EXPERIMENT, main

__all__ = ["EXPERIMENT", "main"]
