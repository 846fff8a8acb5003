"""Builds stores on a Dask cluster: ``pip install "lsmkv[dask]"``.

:func:`build` makes a store, or adds to one, from more entries than one machine can sort.  Workers
write its tables, which one change of the manifest then adopts.  ``docs/beyond-one-machine.md``
explains how.
"""

from __future__ import annotations

from lsmkv.errors import MissingExtraError

__all__ = ["BuildReport", "build"]

try:
    from lsmkv.cluster.building import BuildReport as BuildReport
    from lsmkv.cluster.building import build as build
except ImportError as missing:
    if (missing.name or "").partition(".")[0] == "lsmkv":
        raise
    raise MissingExtraError(
        f'lsmkv.cluster needs Dask and pyarrow: pip install "lsmkv[dask]" ({missing})'
    ) from missing
