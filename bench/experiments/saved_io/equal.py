"""Ribbon filters beside Bloom filters of 1 %: at equal rate, and in equal bytes.

All three stores have the same blocks, so every count is of the same searches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import lsmkv

from ...harness.ribbon_sizes import fit
from ...harness.shapes import block_keys
from ...workloads.keys import lookups
from . import rows
from .datasets import Content, content
from .stores import Built, build, count, counts
from .tasks import EqualTask


def measure_equal(task: EqualTask, directory: str) -> Iterator[rows.Row]:
    """The rows of Bloom, of ribbon at its rate, and of ribbon in its bytes."""
    data = content(task.dataset, task.entries, task.seed)
    # Asked again, a key would get the same answer: the counts would grow, and tell nothing more.
    keys = lookups([], data.absent, 0.0, min(task.lookups, len(data.absent)), task.seed)
    bloom_path = os.path.join(directory, "bloom")
    bloom = _build(task, data, bloom_path, "bloom", rows.REFERENCE_RATE)
    yield _row(task, bloom_path, bloom, keys, "bloom", rows.REFERENCE_RATE, rows.REFERENCE)
    path = os.path.join(directory, "equal-rate")
    ribbon = _build(task, data, path, "ribbon", rows.REFERENCE_RATE)
    yield _row(task, path, ribbon, keys, "ribbon", rows.REFERENCE_RATE, rows.EQUAL_RATE)
    path, rate, ribbon = _within(task, data, directory, bloom_path, bloom.filter_bytes)
    yield _row(task, path, ribbon, keys, "ribbon", rate, rows.EQUAL_BYTES)


def _within(
    task: EqualTask, data: Content, directory: str, like: str, budget_bytes: int
) -> tuple[str, float, Built]:
    """The store with ribbon filters of the lowest rate that is found to fit, and that rate."""
    with lsmkv.open(like, read_only=True) as db:
        filters = block_keys(db)
    written: list[tuple[str, Built]] = []

    def write(error_rate: float) -> int:
        path = os.path.join(directory, f"equal-bytes-{len(written)}")
        built = _build(task, data, path, "ribbon", error_rate)
        written.append((path, built))
        return built.filter_bytes

    rate = fit(filters, budget_bytes, write)
    path, built = written[-1]
    return path, rate, built


def _build(task: EqualTask, data: Content, path: str, policy: str, error_rate: float) -> Built:
    return build(task.store(policy, error_rate), data, path)


def _row(
    task: EqualTask,
    path: str,
    built: Built,
    keys: Sequence[bytes],
    policy: str,
    error_rate: float,
    comparison: str,
) -> rows.Row:
    counted = count(path, keys)
    return rows.Row(
        dataset=task.dataset,
        filter_policy=policy,
        block_size_bytes=task.block_size_bytes,
        run_count=task.runs,
        lookups_of=rows.DRAWN,
        hit_ratio=0.0,
        error_rate_requested=error_rate,
        comparison=comparison,
        lookup_count=len(keys),
        **counts(built, counted),
        # Without filters each search that one was asked for would be a read.
        data_block_reads_unfiltered=sum(counted.answers.trials),
        os_check="not told: counted only",
    )
