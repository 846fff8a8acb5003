"""The parts of a source, each made by a worker."""

from __future__ import annotations

import glob
import os
from typing import Any

import dask.bag
import dask.dataframe
from dask.delayed import Delayed, delayed

from lsmkv.cluster.pieces import from_frame, from_pairs

_PARQUET_PART_BYTES = 64 << 20


def parts_of(source: Any, key: str, value: str) -> list[Delayed]:
    """A task for each part of the source, in order.

    It makes the part's Arrow table.

    TypeError if the source is none; ValueError if it lacks a column; FileNotFoundError if no file
    matches a path.
    """
    if isinstance(source, dask.bag.Bag):
        pieces = source.to_delayed()
        return [delayed(from_pairs)(piece, part) for part, piece in enumerate(pieces)]
    if not isinstance(source, dask.dataframe.DataFrame):
        source = dask.dataframe.read_parquet(
            _parquet_paths(source),
            columns=[key, value],
            dtype_backend="pyarrow",
            split_row_groups="adaptive",
            blocksize=_PARQUET_PART_BYTES,
        )
    if key == value:
        raise ValueError(f"key={key!r} and value={value!r} are the same column")
    for name in (key, value):
        if name not in source.columns:
            raise ValueError(f"the source has no column {name!r}; it has {list(source.columns)}")
    pieces = source[[key, value]].to_delayed()
    return [delayed(from_frame)(piece, key, value, part) for part, piece in enumerate(pieces)]


def _parquet_paths(source: Any) -> Any:
    paths = source if isinstance(source, list) else [source]
    if not paths or not all(isinstance(path, (str, os.PathLike)) for path in paths):
        raise TypeError(
            "source is a dask.bag.Bag of (key, value), a dask.dataframe.DataFrame, or the path of "
            f"Parquet files, not {type(source).__name__}"
        )
    found = [os.fspath(path) for path in paths]
    for path in found:
        if "://" not in path and not os.path.exists(path) and not glob.glob(path, recursive=True):
            raise FileNotFoundError(f"source={path!r}: no file matches")
    return found if isinstance(source, list) else found[0]
