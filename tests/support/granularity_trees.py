"""Small trees of the experiment ``granularity``."""

from __future__ import annotations

from pathlib import Path

import lsmkv
from bench.experiments.granularity.contenders import Contender
from bench.experiments.granularity.shapes import Load, Style, fill
from lsmkv.inspection.store_info import StoreInfo

UNIFORM = Contender("block", "bloom", "uniform")


def tiny_load(style: Style) -> Load:
    return Load(style, flushes=31, flush_entries=128, seed=1)


def built(
    path: Path, load: Load, contender: Contender = UNIFORM, error_rate: float = 0.02
) -> StoreInfo:
    with lsmkv.open(path, contender.options(load.options(), error_rate)) as db:
        fill(db, load)
        return db.inspect()
