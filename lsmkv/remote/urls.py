"""URLs of object storage; without ``obstore``, so that what is wrong with one is told first."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import unquote, urlsplit

from lsmkv.storage.storage import is_url, shown_url

SCHEMES: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl", "file")


def checked_url(url: str) -> str:
    """``url`` without a slash at its end; TypeError or ValueError if it names no object storage."""
    if not isinstance(url, str):
        raise TypeError(f"url is str, not {type(url).__name__}")
    shown = shown_url(url)
    try:
        parts = urlsplit(url)
    except ValueError:  # which may show the user's part
        raise ValueError(f"url={shown!r}: it is not well formed") from None
    if parts.scheme not in SCHEMES or not is_url(url):
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ValueError(f"url={shown!r}: object storage begins with one of {known}")
    if parts.query or parts.fragment:
        raise ValueError(f"url={shown!r}: it has a query or a fragment; leave them out")
    if parts.username or parts.password:
        raise ValueError(
            "the url holds a user name or password; leave credentials to the environment"
        )
    if not (parts.netloc or parts.scheme == "file") or (parts.scheme == "file" and parts.netloc):
        pattern = (
            "file:///absolute/path" if parts.scheme == "file" else f"{parts.scheme}://bucket/prefix"
        )
        raise ValueError(f"url={shown!r}: it names no bucket or folder; write {pattern}")
    url = url.rstrip("/")
    if parts.scheme == "file" and local_folder(url).strip("/") == "":
        raise ValueError(f"url={shown!r}: it is the root of the file system; name a folder")
    return url


def local_folder(url: str) -> str:
    """The folder that a ``file:`` URL names."""
    return os.path.normpath(unquote(urlsplit(url).path) or "/")


def check_outside(url: str, directory: str) -> None:
    """ValueError if ``url`` is the store's directory, or inside it."""
    if checked_url(url).startswith("file:"):
        store, folder = map(os.path.realpath, (directory, local_folder(url)))
        if os.path.commonpath((store, folder)) == store:
            raise ValueError(f"url={url!r}: it is inside the store {directory}; publish elsewhere")
