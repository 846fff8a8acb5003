"""What YCSB prints with ``-db basic`` (``site.ycsb.BasicDB``): https://github.com/brianfrankcooper/YCSB.

``INSERT``, ``UPDATE``, ``READ``, ``SCAN`` and ``DELETE``, each with table, key, for a scan the number of
records, and fields in brackets.  A record's value is the text in brackets.
An update writes the whole value that the line has.  A key stands behind its table's name.  Other lines,
such as YCSB's properties and statistics, are no operations.
"""

from __future__ import annotations

from typing import ClassVar, Final

from .base import Operation, TraceFormat

_WORDS: Final = (b"INSERT", b"UPDATE", b"READ", b"SCAN", b"DELETE")
_BRACKETS: Final = 4  # "[ " and " ]"


class YCSB(TraceFormat):
    name: ClassVar[str] = "ycsb"
    form: ClassVar[str] = "READ TABLE KEY [ <all fields>] and the like"

    def operation(self, line: bytes) -> Operation | None:
        word, _, rest = line.partition(b" ")
        if word not in _WORDS:
            return None
        table, key, *others = rest.split(b" ", 2)
        keys = (table + b"/" + key,)
        if word == b"DELETE":
            return Operation("delete", keys)
        (fields,) = others
        if not fields.endswith(b"]"):
            raise ValueError(fields)
        if word == b"READ":
            return Operation("get", keys)
        if word == b"SCAN":
            return Operation("scan", keys, limit=int(fields.partition(b" ")[0]))
        if not fields.startswith(b"[ "):
            raise ValueError(fields)
        return Operation("put", keys, max(0, len(fields) - _BRACKETS))
