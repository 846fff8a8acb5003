"""A workload to measure beside YCSB's: ``--plugin bench/examples/scan_workload.py``.

An example of a plug-in: a file that registers what it adds, to be copied and changed.  Give its letter
to have it run: ``python -m bench ycsb --workloads CS --plugin bench/examples/scan_workload.py ...``
"""

from __future__ import annotations

from bench.experiments.ycsb.workloads import Workload, register

# Proportions of reads, updates, inserts, scans and read-modify-writes.
register(Workload("S", "half scans", (0.5, 0, 0, 0.5, 0)))
