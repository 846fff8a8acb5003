"""Where a build puts its tables: a store's directory, or object storage.

The coordinator makes a target and adopts the tables at the end.  What workers need of it is in each
:class:`~lsmkv.cluster.partition.PartitionJob`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Protocol

import lsmkv
from lsmkv.cluster.partition import WrittenTables


class Target(Protocol):
    """Takes the tables of all partitions at once.

    Attributes:
        staging: a directory for the workers' tables; None: each writes to one of its own.
        publication: with which workers send tables; None: they send none.
    """

    staging: str | None
    publication: lsmkv.TablePublication | None

    def adopt(self, written: Sequence[WrittenTables]) -> None:
        """Make all tables count, or none."""


@contextlib.contextmanager
def open_target(target: str | os.PathLike[str], options: lsmkv.Options) -> Iterator[Target]:
    """The target of a build; a failure within the block leaves it as it was."""
    if isinstance(target, str) and "://" in target:
        yield _Published(lsmkv.TablePublication.begin(target, options))
        return
    is_new = False
    try:
        db = lsmkv.open(target, options, create_if_missing=False)
    except lsmkv.NotAStoreError:
        db = lsmkv.open(target, options, error_if_exists=True)
        is_new = True
    try:
        with db, db.staging() as staging:
            yield _Directory(db, staging)
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):
                lsmkv.destroy(target)
        raise


class _Directory:
    """An open store, locked, whose workers write to a directory in it."""

    def __init__(self, db: lsmkv.DB, staging: str) -> None:
        self._db = db
        self.staging: str | None = staging
        self.publication: lsmkv.TablePublication | None = None

    def adopt(self, written: Sequence[WrittenTables]) -> None:
        paths = [path for tables in written for path in tables.paths]
        self._db.ingest(paths, move=True, verify=False)


class _Published:
    """A URL, below which workers put tables for the next generation."""

    def __init__(self, publication: lsmkv.TablePublication) -> None:
        self.staging: str | None = None
        self.publication: lsmkv.TablePublication | None = publication

    def adopt(self, written: Sequence[WrittenTables]) -> None:
        assert self.publication is not None
        self.publication.commit(table for tables in written for table in tables.sent)
