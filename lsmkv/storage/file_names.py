"""Names of a store's files."""

from __future__ import annotations

import os
import re
from typing import Final

MAX_FILE_NUMBER: Final = (1 << 31) - 1
"""The highest file number: 31 bits of a key of the block cache, which has 63."""

CURRENT: Final = "CURRENT"
LOCK: Final = "LOCK"
ERASED: Final = "ERASED"
"""A second copy of the range deletes in the manifest (:mod:`lsmkv.tree.erased_file`)."""
BACKUP: Final = "BACKUP"
"""In a backup: what it was made of (:mod:`lsmkv.copies.record`)."""
UNFINISHED_COPY: Final = "UNFINISHED"
"""In a directory in which a checkpoint or a first backup is being made, or was until a crash."""
SINGLE_NAMES: Final = (CURRENT, ERASED, LOCK, BACKUP, UNFINISHED_COPY)
"""The names without a number."""
UNFINISHED: Final = ".lsmkv-tmp"
"""The suffix of files that are being written.  No other program uses it, so it tells whose they are."""

_LET_BE: Final = re.compile(
    r"lost\+found"  # of each ext file system
    r"|\.DS_Store|\._.*|\.Spotlight-V100|\.Trashes|\.fseventsd|\.TemporaryItems"  # of macOS
    r"|\.Trash|\.Trash-[0-9]+|\.directory"  # of Linux desktops
    r"|desktop\.ini|Thumbs\.db|System Volume Information|\$RECYCLE\.BIN"  # of Windows
    r"|\.gitkeep|\.keep|\.gitignore"  # directories that git is to keep
    r"|\.stfolder|\.stignore|\.stversions"  # of Syncthing
    r"|CACHEDIR\.TAG|\.nobackup"  # what backups leave out
    r"|\.snapshot|\.snapshots|\.zfs|\.nfs[0-9a-f]+|\.fuse_hidden[0-9a-f]+",  # of file systems
)
"""Names that systems and tools put into any directory.  They hold nothing of a program that keeps its
data there, so a directory with no others counts as empty; nobody removes them."""

_NUMBER: Final = "([0-9]{6}|[1-9][0-9]{6,9})"  # as the store writes them
_SUFFIX: Final = re.escape(UNFINISHED)
_FILE_NAME: Final = re.compile(rf"(?:MANIFEST-{_NUMBER}|{_NUMBER}\.(sst|log))({_SUFFIX})?")
_STAGED_NAME: Final = re.compile(rf"[0-9a-f]{{16}}-[0-9]{{6,8}}\.sst{_SUFFIX}")
_STAGING: Final = re.compile(rf"staging-[0-9a-f]{{32}}({_SUFFIX})?")
_REPLACED: Final = frozenset(name + UNFINISHED for name in SINGLE_NAMES if name != LOCK)


def new_staging_name() -> str:
    """A name for a directory of tables that may come to count."""
    return f"staging-{os.urandom(16).hex()}"


def is_staging_name(name: str) -> bool:
    """Whether this is a staging directory, also one that is being removed.

    >>> is_staging_name(new_staging_name()), is_staging_name("staging-area")
    (True, False)
    """
    return _STAGING.fullmatch(name) is not None


def table_path(directory: str, number: int) -> str:
    return os.path.join(directory, f"{number:06}.sst")


def log_path(directory: str, number: int) -> str:
    return os.path.join(directory, f"{number:06}.log")


def manifest_path(directory: str, number: int) -> str:
    return os.path.join(directory, f"MANIFEST-{number:06}")


def staged_path(directory: str, token: str, number: int) -> str:
    """Path of a table that waits to be adopted; ``token`` is 16 hex digits.

    Nobody else uses names with this token, so such files need no lock and no number of the store.
    """
    return os.path.join(directory, f"{token}-{number:06}.sst{UNFINISHED}")


def is_let_be(name: str) -> bool:
    """Whether systems or tools put this into any directory.

    >>> is_let_be("lost+found"), is_let_be(".Trash-1000"), is_let_be("notes.txt")
    (True, True, False)
    """
    return _LET_BE.fullmatch(name) is not None


def is_unfinished_name(name: str) -> bool:
    """Whether this is a file that was being written: ours, whatever is in it.

    >>> is_unfinished_name("CURRENT.lsmkv-tmp"), is_unfinished_name("CURRENT")
    (True, False)
    """
    kind, _ = parse_file_name(name) or ("", 0)
    return name in _REPLACED or kind in ("temporary", "staged")


def parse_file_name(name: str) -> tuple[str, int] | None:
    """Kind and number of a store's file; None for any other name.

    The kinds are ``"table"``, ``"log"``, ``"manifest"`` and ``"temporary"``, and ``"staged"`` with the
    number 0: a table that waits to be adopted.

    >>> parse_file_name("000012.sst"), parse_file_name("notes.txt")
    (('table', 12), None)
    """
    match = _FILE_NAME.fullmatch(name)
    if match is None:
        return ("staged", 0) if _STAGED_NAME.fullmatch(name) else None
    manifest, number, extension, temporary = match.groups()
    if int(manifest or number) > MAX_FILE_NUMBER:
        return None
    if temporary:
        return "temporary", int(manifest or number)
    if manifest:
        return "manifest", int(manifest)
    return ("table" if extension == "sst" else "log"), int(number)
