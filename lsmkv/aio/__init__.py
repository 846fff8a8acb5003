"""Stores for asyncio: what may take long runs in threads, the rest at once.

>>> import asyncio, lsmkv.aio, tempfile
>>> async def main(path):
...     async with lsmkv.aio.open(path) as db:
...         await db.put(b"apple", b"red", sync=True)
...         async with db.write_batch() as batch:
...             batch.put(b"banana", b"yellow")
...             batch.put(b"cherry", b"dark red")
...         print(await db.get(b"apple"))
...         return [key async for key in db.keys(start=b"b")]
>>> with tempfile.TemporaryDirectory() as path:
...     asyncio.run(main(path))
b'red'
[b'banana', b'cherry']

**Where work runs.**  A thread costs many times what a warm lookup does, so lookups run in the event
loop unless ``in_thread=True`` (for a store on a slow disk whose blocks are not cached).  Writes run in
the event loop while the store has room for them (``DB.write_room_bytes``), and in a thread when they
would wait, are larger than 256 KiB, or follow one that is in a thread.  Syncs, scans, flushes,
compactions and everything else that reads files run in threads.  These are the store's own, and end when
it is closed.  After half a millisecond of work in the event loop, the next call lets other tasks run.

**Cancelling** a call ends the wait.  A write that has its turn takes place all the same; other work is
dropped if it has not begun.  Keys and values are those of the call, whatever becomes of their buffers.
Closing goes on in a thread, whatever is cancelled, and whoever awaits it waits for all work.

**Loops.**  A store belongs to the event loop that opened it.  For two loops, open it once with
:func:`lsmkv.open`, and make an ``AsyncDB(db)`` in each.
"""

from __future__ import annotations

from lsmkv.aio.batch import AsyncBatch
from lsmkv.aio.db import AsyncDB, Opening, open
from lsmkv.aio.ranges import AsyncRange
from lsmkv.aio.reading import AsyncReader, AsyncSnapshot

__all__ = ["AsyncBatch", "AsyncDB", "AsyncRange", "AsyncReader", "AsyncSnapshot", "Opening", "open"]
