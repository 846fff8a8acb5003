"""Publishes the counters of a program's store for the live page.

A store's counters belong to the program that has it open.  :func:`publish` writes them, every second,
to a small file beside the store's directory, and ``lsmkv explore --serve`` shows them::

    with lsmkv.open("shop.db") as db, lsmkv.counters.publish(db):
        serve(db)

The file is no part of the store: copies, ``verify``, ``repair`` and ``destroy`` do not know it.  It goes
with the end of the block.  A program that is killed leaves it, and readers see that it is old.

>>> import lsmkv, lsmkv.counters, tempfile
>>> with tempfile.TemporaryDirectory() as folder, lsmkv.open(f"{folder}/shop.db") as db:
...     with lsmkv.counters.publish(db):
...         lsmkv.counters.read(db.path).stats["writes"]
0
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import threading
import time
from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec

from lsmkv import DB
from lsmkv.errors import ClosedError, ForkedError

__all__ = ["Counters", "LevelCount", "TableCount", "path_beside", "publish", "read"]

_MOST_BYTES: Final = 256 * 1024
_MOST_TABLES: Final = 100
_MOST_LEVELS: Final = 32
_LEAST_S, _MOST_S = 0.1, 60.0
_END_S: Final = 5.0
_OPENING: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC  # no pipe, no link

Name = Annotated[str, msgspec.Meta(pattern="^[a-z0-9_]{1,60}$")]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class TableCount(msgspec.Struct, forbid_unknown_fields=True):
    """Answers of one table's filters to absent keys."""

    table: Count
    level: Count
    false_positives: Count
    filter_negatives: Count


class LevelCount(msgspec.Struct, forbid_unknown_fields=True):
    """Sums over the tables of one level."""

    level: Count
    tables: Count
    false_positives: Count
    filter_negatives: Count


class Counters(msgspec.Struct, forbid_unknown_fields=True):
    """Counters that a program published.

    Attributes:
        pid: of the program.
        published_at_s: when, in seconds since 1970.
        interval_s: it publishes this often.
        stats: ``DB.stats``, without histograms.
        tables: those with most false positives, most first.
        levels: those with tables, from the top.
        age_s: seconds since the file was written; set by :func:`read`.
    """

    format: Literal[1]
    pid: Count
    published_at_s: Seconds
    interval_s: Annotated[float, msgspec.Meta(ge=_LEAST_S, le=_MOST_S)]
    stats: dict[Name, Count | Seconds]
    tables: Annotated[list[TableCount], msgspec.Meta(max_length=_MOST_TABLES)]
    levels: Annotated[list[LevelCount], msgspec.Meta(max_length=_MOST_LEVELS)]
    age_s: float = 0.0

    @property
    def is_old(self) -> bool:
        """Whether the program has missed three turns: it has ended, or hangs."""
        return not -1.0 <= self.age_s <= 3 * self.interval_s + 1.0


def path_beside(store: str | os.PathLike[str]) -> str:
    """The file of a store's counters, if its program named no other."""
    return os.path.realpath(store) + ".counters.json"


@contextlib.contextmanager
def publish(
    db: DB, path: str | os.PathLike[str] | None = None, *, interval_s: float = 1.0
) -> Iterator[str]:
    """Publish the counters of ``db`` while the block runs; gives the path of the file.

    A thread collects them, O(tables) each time, and replaces the file as a whole.  One program at a time
    publishes to one file.

    Args:
        path: the file (default: beside the store's directory; the page looks there).
        interval_s: seconds between two publications, 0.1 to 60.

    Raises:
        TypeError, ValueError: wrong arguments.
        OSError: the first publication failed.  A later failure is logged.
    """
    if not isinstance(db, DB):
        raise TypeError(
            f"publish takes a DB that lsmkv.open returned, not {type(db).__name__}; "
            "a cache has one as cache.db"
        )
    if isinstance(interval_s, bool) or not isinstance(interval_s, int | float):
        raise TypeError(f"interval_s={interval_s!r}: give a number of seconds")
    if not _LEAST_S <= interval_s <= _MOST_S:
        raise ValueError(f"interval_s={interval_s!r}: must be {_LEAST_S:g} to {_MOST_S:g}")
    if path is None and "://" in db.path:
        raise ValueError(f"{db.path} is in object storage: give path=, a file of this machine")
    target = path_beside(db.path) if path is None else os.path.abspath(path)
    _write(db, target, interval_s)
    is_over = threading.Event()
    owner = os.getpid()
    thread = threading.Thread(
        target=_keep_publishing,
        args=(db, target, interval_s, is_over),
        name="lsmkv-counters",
        daemon=True,
    )
    thread.start()
    try:
        yield target
    finally:
        if os.getpid() == owner:  # a child of a fork has neither the thread nor the file
            is_over.set()
            thread.join(_END_S)
            with contextlib.suppress(OSError):
                os.unlink(target)


def _keep_publishing(db: DB, target: str, interval_s: float, is_over: threading.Event) -> None:
    has_failed = False
    while not is_over.wait(interval_s):
        try:
            _write(db, target, interval_s)
        except (ClosedError, ForkedError):
            return
        except OSError as error:
            if not has_failed:
                logging.getLogger("lsmkv").warning("counters are not published: %s", error)
            has_failed = True


def _write(db: DB, target: str, interval_s: float) -> None:
    counted = {
        name: number
        for name, number in db.stats().as_dict().items()
        if isinstance(number, int | float)
    }
    levels: dict[int, LevelCount] = {}
    tables: list[TableCount] = []
    for table in db.tables():
        passed, denied = table.false_positives, table.filter_negatives
        level = levels.setdefault(table.level, LevelCount(table.level, 0, 0, 0))
        level.tables += 1
        level.false_positives += passed
        level.filter_negatives += denied
        if passed:
            tables.append(TableCount(table.number, table.level, passed, denied))
    tables.sort(key=lambda each: (-each.false_positives, each.table))
    content = Counters(
        format=1,
        pid=os.getpid(),
        published_at_s=time.time(),
        interval_s=interval_s,
        stats=counted,
        tables=tables[:_MOST_TABLES],
        levels=list(levels.values()),
    )
    part = f"{target}.{os.urandom(8).hex()}.lsmkv-tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    file = os.open(part, flags, db.options.file_mode)
    try:
        with open(file, "wb") as stream:
            stream.write(msgspec.json.encode(content))
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def read(store: str | os.PathLike[str]) -> Counters | None:
    """The counters that a program publishes beside ``store``; None without any.

    Raises:
        ValueError: what is there are no such counters.
        OSError: it cannot be read.
    """
    path = path_beside(store)
    try:
        file = os.open(path, _OPENING)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise ValueError(f"{path} is no file of counters: it is no plain file") from None
        raise
    with open(file, "rb") as stream:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path} is no file of counters: it is no plain file")
        data = stream.read(_MOST_BYTES + 1)
    try:
        if len(data) > _MOST_BYTES:
            raise ValueError("it is too long")
        found = msgspec.json.decode(data, type=Counters)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise ValueError(f"{path} is no file of counters: {error}") from None
    found.age_s = time.time() - status.st_mtime
    return found
