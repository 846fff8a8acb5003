"""A form of traces to replay: ``--plugin bench/examples/trace_format.py``.

An example plug-in: copy and change it.  Its lines are what ``redis-cli monitor`` prints
(https://redis.io/docs/latest/commands/monitor/) of the commands ``SET``, ``GET``, ``MGET`` and ``DEL`` of
one key: a time, the client, and words in quotes.
"""

from __future__ import annotations

import shlex
from typing import ClassVar

from bench.traces.base import Operation, TraceFormat, register


class Monitor(TraceFormat):
    name: ClassVar[str] = "monitor"
    form: ClassVar[str] = '1700000000.1 [0 host:port] "GET" "KEY"'

    def operation(self, line: bytes) -> Operation | None:
        if line == b"OK":
            return None
        begin, _, rest = line.decode().partition(" [")
        word, *words = shlex.split(rest[rest.index('] "') + 1 :])
        time_s, keys = int(float(begin)), tuple(each.encode() for each in words)
        if word.upper() == "SET":
            return Operation("put", keys[:1], len(keys[1]), time_s=time_s)
        kind = {"GET": "get", "MGET": "multi-get", "DEL": "delete"}[word.upper()]
        return Operation(kind, keys, time_s=time_s)  # type: ignore[arg-type]


register(Monitor())
