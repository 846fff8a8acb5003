"""Typed stores: keys and values are objects, which type checkers know.

>>> import lsmkv, tempfile
>>> from lsmkv.typed import Int64, Json, Str, Tuple, TypedDB
>>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
...     visits = TypedDB(db.prefixed(b"visits/"), key=Tuple(Str(), Int64()), value=Json(list[str]))
...     visits["ada", 2024] = ["London", "Turin"]
...     visits["ada", 1843] = ["London"]
...     visits["alan", 1936] = ["Princeton"]
...     list(visits.items(prefix=("ada",)))
[(('ada', 1843), ['London']), (('ada', 2024), ['London', 'Turin'])]

Keys keep their order: ``Str``, ``Int64``, ``Float``, ``Bytes``, ``Uuid``, and ``Tuple`` of these.
Values are ``Json`` or ``MsgPack``, of anything or of a type, or have a codec of keys.  ``Pickle`` is not
among the names that ``import *`` gives: reading it runs code from the store.

A codec of your own derives from ``Codec`` for values, ``KeyCodec`` for keys, or ``Part`` for keys that
are parts of tuples, too.  ``pack`` and ``unpack`` are FoundationDB's tuple encoding by itself.
"""

from lsmkv.typed.db import DecodeError, TypedBatch, TypedDB, TypedMapping, TypedSnapshot
from lsmkv.typed.keys import Bytes, Codec, Float, Int64, KeyCodec, Part, Str, Tuple, Uuid
from lsmkv.typed.pickled import Pickle as Pickle
from lsmkv.typed.tuples import SingleFloat, pack, unpack
from lsmkv.typed.values import Json, MsgPack

__all__ = [
    "Bytes",
    "Codec",
    "DecodeError",
    "Float",
    "Int64",
    "Json",
    "KeyCodec",
    "MsgPack",
    "Part",
    "SingleFloat",
    "Str",
    "Tuple",
    "TypedBatch",
    "TypedDB",
    "TypedMapping",
    "TypedSnapshot",
    "Uuid",
    "pack",
    "unpack",
]
