"""A workload to measure beside YCSB's: ``--plugin bench/examples/scan_workload.py``.

An example plug-in: copy and change it.  Its letter selects it: ``python -m bench ycsb --workloads CS
--plugin bench/examples/scan_workload.py ...``
"""

from __future__ import annotations

from bench.experiments.ycsb.workloads import Workload, register

# Proportions of reads, updates, inserts, scans and read-modify-writes.
register(Workload("S", "half scans", (0.5, 0, 0, 0.5, 0)))
