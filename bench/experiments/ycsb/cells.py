"""One cell of the results: a workload on an engine."""

from __future__ import annotations

from bench.experiments.ycsb.rows import Row

Cell = dict[tuple[str, str], list[Row]]
