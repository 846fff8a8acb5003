"""Makes the engines of read-only stores, in directories and in object storage."""

from __future__ import annotations

from lsmkv.engine.engine import Engine
from lsmkv.options import Options
from lsmkv.storage.storage import Storage, is_url


def engine_for_reading(
    path: str, options: Options, refresh_every_s: float | None, storage: Storage | None = None
) -> Engine:
    """The engine of a store at a path or URL, not open yet."""
    if is_url(path):
        from lsmkv.remote.published import PublishedStore

        files = Storage()
        published = PublishedStore(path, options, files.stats)
        return Engine(published.bucket.url, options, files, None, published, refresh_every_s)
    files = storage or Storage(direct_reads=options.direct_reads, file_mode=options.file_mode)
    return Engine(path, options, files, None, refresh_every_s=refresh_every_s)
