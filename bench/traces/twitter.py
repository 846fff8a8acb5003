"""Twitter's cache traces (Yang, Yue and Vinayak, OSDI 2020): https://github.com/twitter/cache-trace.

Seven fields between commas, without a heading: time in seconds, key, size of the key, size of the value,
client, operation, time to live.  A key may hold commas.  Every operation that writes sets the key to a
value of its size; keys have the length that anonymisation gave them.
"""

from __future__ import annotations

from typing import ClassVar, Final

from .base import Operation, TraceFormat

_WRITES: Final = frozenset(
    (b"set", b"add", b"replace", b"cas", b"append", b"prepend", b"incr", b"decr")
)


class Twitter(TraceFormat):
    name: ClassVar[str] = "twitter"
    form: ClassVar[str] = "time,key,key size,value size,client,operation,ttl"

    def operation(self, line: bytes) -> Operation | None:
        begin, _, rest = line.partition(b",")
        key, _, value_bytes, _, operation, ttl_s = rest.rsplit(b",", 5)
        time_s = int(begin)
        if operation in (b"get", b"gets"):
            return Operation("get", (key,), time_s=time_s)
        if operation == b"delete":
            return Operation("delete", (key,), time_s=time_s)
        if operation not in _WRITES:
            raise ValueError(operation)
        return Operation("put", (key,), int(value_bytes), int(ttl_s), time_s=time_s)
