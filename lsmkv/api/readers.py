"""Makes the engines of read-only stores, in directories and in object storage."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

from lsmkv.background.events import OnEvent
from lsmkv.engine.engine import Engine
from lsmkv.options import Options
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.storage.storage import Storage, is_url
from lsmkv.tree.version_set import VersionSet

if TYPE_CHECKING:
    from lsmkv.inspection.verify import VerifyReport


def engine_for_reading(
    path: str,
    options: Options,
    refresh_every_s: float | None,
    storage: Storage | None = None,
    on_event: OnEvent | None = None,
) -> Engine:
    """The engine of a store at a path or URL, unopened."""
    if is_url(path):
        from lsmkv.remote.published import PublishedStore

        files = Storage()
        published = PublishedStore(path, options, files.stats)
        url = published.bucket.url
        return Engine(url, options, files, None, published, refresh_every_s, on_event)
    files = storage or Storage(direct_reads=options.direct_reads, file_mode=options.file_mode)
    return Engine(path, options, files, None, refresh_every_s=refresh_every_s, on_event=on_event)


def engine_for_later(path: str, options: Options, refresh_every_s: float | None) -> Engine:
    """An engine that its first use opens, and where every error comes.

    A pool whose worker fails while it unpickles an argument waits for ever.
    """
    try:
        engine = engine_for_reading(path, options, refresh_every_s)
    except Exception as error:  # object storage cannot be had in this process
        engine = Engine(path, options, Storage(), None, _Unreachable(error))
    engine.leave_to_first_use()
    return engine


class _Unreachable:
    """A published store that cannot be reached from this process."""

    generation = 0

    def __init__(self, error: Exception) -> None:
        self._error = error.with_traceback(None)

    def tables(
        self, storage: Storage, directory: str, options: Options, cache: BlockCache
    ) -> VersionSet:
        return VersionSet(storage, directory, options, cache)

    def recover(self) -> tuple[SuperVersion, int]:
        raise copy.copy(self._error)  # each use gets an exception of its own

    def verify(self, progress: Callable[[int, int], None] | None) -> VerifyReport:
        raise copy.copy(self._error)

    def close(self) -> None:
        pass
