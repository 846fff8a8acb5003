"""Where a store is: what a path or a URL names."""

from __future__ import annotations

from lsmkv.engine.location import Directory, Location, Unreachable
from lsmkv.options import Options
from lsmkv.storage.storage import Storage, is_url


def new_storage(options: Options, *, read_only: bool) -> Storage:
    """The storage of a store in a directory."""
    return Storage(
        direct_reads=options.direct_reads, file_mode=options.file_mode, follow_links=read_only
    )


def location_of(path: str, options: Options) -> Location:
    """The location that a path or URL names."""
    if not is_url(path):
        return Directory(path, new_storage(options, read_only=True))
    from lsmkv.remote.published import PublishedStore

    return PublishedStore(path, options, Storage())


def location_on_use(path: str, options: Options) -> Location:
    """As :func:`location_of`; an error is told at the first use, or a pool would wait for ever."""
    try:
        return location_of(path, options)
    except Exception as error:
        return Unreachable(path, error)
