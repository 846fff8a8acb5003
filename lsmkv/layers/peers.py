"""Names that other stores have, and what to write here: for the errors about them.

They are those of plyvel, RocksDict, LMDB, sqlitedict, diskcache, shelve and LevelDB.  Names of options
are told by :mod:`lsmkv.options`.
"""

from __future__ import annotations

import re
from abc import ABCMeta
from collections.abc import Callable, Iterable
from typing import Final, NoReturn, TypeVar

_T = TypeVar("_T", bound=type)

_EXPIRING: Final = (
    "put(key, value, ttl_s=60) expires, expires_at(key) tells when, touch(key, ttl_s=60) renews"
)
_START: Final = "write start= (the first key of the range)"
_STOP: Final = "write stop= (the first key beyond the range)"
_INCLUSIVE: Final = r'ranges are start <= key < stop; key + b"\0" is the next key above'
_PARTS: Final = "keys() has keys alone, values() values alone"

_OF_MAPPINGS: Final = {
    "iterator iter iterate iteritems range range_iter scan raw_iterator new_iterator create_iterator": (
        "items(start=, stop=, prefix=, reverse=) iterates, and cursor() moves both ways"
    ),
    "seek seek_to_first seek_to_last next prev": "cursor() moves both ways: cursor().seek(key)",
    "iterkeys entities": "keys(start=, stop=, prefix=, reverse=) iterates over keys",
    "itervalues": "values(start=, stop=, prefix=, reverse=) iterates over values",
    "delete_prefix deleterange": "delete_range(start, stop) or delete_range(prefix=)",
    "delete_many": "delete each key in a batch, or delete_range(start, stop)",
    "put_if_absent put_new setnx add": (
        "compare_and_set(key, None, value) tells whether it was set; setdefault(key, value)"
    ),
    "has has_key contains exists key_may_exist": "write: key in db",
    "put_many put_batch put_multi set_many mset putmulti write WriteBatch batch": (
        "write_batch() applies all or none; update(pairs) puts each by itself"
    ),
    "get_many get_multi mget getmulti": "multi_get(keys)",
    "get_or_default": "get(key, default)",
    "merge incr increment decr": "transact(function) reads and writes in one step",
    "begin begin_transaction": "with db.transaction() as transaction: ...",
    "commit": "each write counts at once; sync() makes it safe from a power failure",
    "set insert store": "put(key, value), or db[key] = value",
    "remove discard erase": "delete(key), or del db[key]",
    "ttl expire expires expiry ex": _EXPIRING,
    "compact vacuum reorganize": "compact_range()",
    "get_snapshot create_snapshot": "snapshot()",
    "approximate_sizes get_approximate_size get_approximate_sizes size": (
        "approximate_size(start, stop), and disk_bytes() of the whole directory"
    ),
    "len count": "len(db) scans, approximate_count() does not",
    "get_property property_value property_int_value stat info get_stats": (
        "stats(), memory_usage() and inspect()"
    ),
    "prefixed_db open_db create_column_family get_column_family create_cf drop_cf": (
        "parts of a store are db.prefixed(prefix)"
    ),
    "copy backup create_backup create_checkpoint": "checkpoint(path), or lsmkv.backup(path, target)",
    "ingest_external_file ingest_external_files": "ingest(paths)",
    "try_catch_up_with_primary reload": "refresh()",
    "live_files": "tables()",
    "latest_sequence_number": "snapshot().sequence_number",
    "flush_wal sync_wal fsync": "sync()",
    "destroy": "lsmkv.destroy(path)",
    "repair": "lsmkv.repair(path, output)",
    "set_options set_mapsize set_dumps set_loads": "options are arguments of lsmkv.open",
}
_OF_CURSORS: Final = {
    "seek_to_first seek_to_start move_to_first iter items": "first(), then next()",
    "seek_to_last seek_to_end seek_to_stop move_to_last": "last(), then prev()",
    "set_key set_range get": "seek(key)",
    "is_valid": "valid, without a call",
}
_OF_RANGES: Final = {
    "from_key begin begin_key start_key lower lower_bound gte gt min low": _START,
    "to_key end end_key stop_key upper upper_bound lte lt max high": _STOP,
    "limit count n max_count": "itertools.islice(view, n) ends early",
    "include_start include_stop": _INCLUSIVE,
    "include_key include_value with_values keys values": _PARTS,
    "backwards backward descending desc reversed": "write reverse=",
    "snapshot": "call the method of db.snapshot()",
    "verify_checksums fill_cache read_opt": "leave it out",
}


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: advice for names, advice in table.items() for name in names.split()}


class _Elsewhere:
    """An attribute that is not there: the error says what is.

    ``__getattr__`` would say it, too, but make each lookup of a key cost a fifth more (CPython then finds
    no attribute of the class quickly).
    """

    def __init__(self, name: str, advice: str) -> None:
        self._name = name
        self._advice = advice
        self.__doc__ = f"Not here: {advice}."

    def __get__(self, instance: object, owner: type) -> NoReturn:
        advice, method = self._advice, re.match(r"(\w+)\(", self._advice)
        if method is not None and method[1] not in ("len", *dir(owner)):
            advice += "; that is a method of the store"
        message = f"{owner.__name__} has no {self._name!r}: {advice}"
        raise AttributeError(message, name=self._name, obj=instance)


def _telling(table: dict[str, str]) -> Callable[[_T], _T]:
    """A decorator of classes: the errors about their attributes say what to write."""

    def tell(kind: _T) -> _T:
        for name, advice in _by_name(table).items():
            if not hasattr(kind, name):
                setattr(kind, name, _Elsewhere(name, advice))
        return kind

    return tell


tells_names_of_mappings: Final = _telling(_OF_MAPPINGS)
tells_names_of_cursors: Final = _telling(_OF_CURSORS)


class KnowsPeers(ABCMeta):
    """Classes whose ``dir`` and ``help`` leave out the names of other stores."""

    def __dir__(cls) -> list[str]:
        return own_names(cls, super().__dir__())


def own_names(kind: type, names: Iterable[str]) -> list[str]:
    """``names`` of attributes without those of other stores: what ``dir`` shows."""
    found: dict[str, object] = {}
    for each in reversed(kind.__mro__):  # a class may have what those below it do not
        found.update(vars(each))
    return sorted(name for name in names if type(found.get(name)) is not _Elsewhere)


def wrong_range(method: str, unnamed: tuple[object, ...], unknown: Iterable[str]) -> TypeError:
    """The error for arguments that no range takes."""
    if unnamed:
        return TypeError(
            f"{method}({unnamed[0]!r}) needs a name: start=, stop=, prefix= or reverse="
        )
    name = next(iter(unknown))
    advice = _by_name(_OF_RANGES).get(name, "it takes start=, stop=, prefix= and reverse=")
    return TypeError(f"{method} has no argument {name!r}: {advice}")


def wrong_write(method: str, unnamed: object, expiry: object) -> TypeError:
    """The error for arguments that no write takes."""
    if expiry is not None:
        return TypeError(f"{method} has no argument 'ttl': {_EXPIRING}")
    return TypeError(
        f"{method}(..., {unnamed!r}): sync needs its name, sync=True; it takes nothing else"
    )


def check_unnamed(method: str, given: tuple[object, ...]) -> None:
    """TypeError for an unnamed argument, where ``sync`` is all there is."""
    if given:
        raise TypeError(
            f"{method}({given[0]!r}): sync needs its name, {method}(sync=True); it takes nothing else"
        )


def not_iterable(cursor: object) -> TypeError:
    """The error for a ``for`` loop over a cursor."""
    return TypeError(
        f"a {type(cursor).__name__} is moved, by first(), next() and the like: "
        "for key, value in db.items(start=...) iterates"
    )
