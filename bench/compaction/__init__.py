"""Compaction styles over a sustained load: what each writes, keeps and reads.

``python -m bench compaction``.  The load is in :mod:`bench.compaction.loads`, what is counted in
:mod:`bench.compaction.measure`, the theory in :mod:`bench.compaction.theory`, the rule by which a
default is chosen in :mod:`bench.compaction.decision`.
"""

from bench.compaction.experiment import EXPERIMENT, main

__all__ = ["EXPERIMENT", "main"]
