"""Compresses blocks in a thread, while the next ones are built.

zstd works without the GIL, but a block of 4 KiB takes it 10 us: less than a thread waits for the GIL.  So
the thread takes a group of blocks at a time.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from lsmkv.sstable.block.codec import Compressor, transposed_frame
from lsmkv.sstable.block.finished_block import FinishedBlock
from lsmkv.sstable.block.transposed import transpose

if TYPE_CHECKING:
    from concurrent.futures import Future

# Of payloads.  Each group is twice as large as the one before, so that it is soon known how well the
# table compresses.
_FIRST_GROUP_BYTES: Final = 32 * 1024
_GROUP_BYTES: Final = 512 * 1024


class CompressionThread:
    """One thread, for one table at a time.  It ends with the ``with`` statement."""

    def __init__(self) -> None:
        from concurrent.futures import ThreadPoolExecutor  # here: few programs need it

        self._pool = ThreadPoolExecutor(1, "lsmkv-compress")

    def __enter__(self) -> CompressionThread:
        return self

    def __exit__(self, *failure: object) -> None:
        self._pool.shutdown()

    def start(self, compressor: Compressor, raws: list[bytes]) -> Future[list[bytes]]:
        """Begin to compress ``raws``; returns when the thread needs the GIL no more."""
        begun = threading.Lock()
        begun.acquire()
        future = self._pool.submit(_compressed, begun, compressor, raws)
        begun.acquire()
        return future


def _compressed(begun: threading.Lock, compressor: Compressor, raws: list[bytes]) -> list[bytes]:
    begun.release()
    return compressor.frames(raws)


class CompressionAhead:
    """The blocks of one table, on their way through the thread.

    Attributes:
        waiting_bytes: payloads of the blocks that have not come back.
    """

    def __init__(self, thread: CompressionThread, compressor: Compressor) -> None:
        self._compression_thread = thread
        self._compressor = compressor
        self._group: list[FinishedBlock] = []  # the next one to be compressed
        self._group_bytes = 0
        self._wanted_bytes = _FIRST_GROUP_BYTES
        self._compressing: list[FinishedBlock] = []
        self._frames: Future[list[bytes]] | None = None  # of these
        self.waiting_bytes = 0

    def add(self, block: FinishedBlock) -> list[tuple[FinishedBlock, int, bytes]]:
        """Take a block; returns blocks that are done, each with codec and stored bytes."""
        self._group.append(block)
        size = len(block.payload)
        self._group_bytes += size
        self.waiting_bytes += size
        return [] if self._group_bytes < self._wanted_bytes else self._next_group()

    def rest(self) -> list[tuple[FinishedBlock, int, bytes]]:
        """All other blocks."""
        return self._next_group() + self._next_group()

    def _next_group(self) -> list[tuple[FinishedBlock, int, bytes]]:
        """Start the waiting group, and return the one before."""
        blocks, frames = self._compressing, self._frames
        self._compressing, self._frames = self._group, None
        self._group, self._group_bytes = [], 0
        self._wanted_bytes = min(2 * self._wanted_bytes, _GROUP_BYTES)
        if self._compressing:
            raws = [transpose(block.payload) for block in self._compressing]
            self._frames = self._compression_thread.start(self._compressor, raws)
        if frames is None:
            return []
        done: list[tuple[FinishedBlock, int, bytes]] = []
        for block, frame in zip(blocks, frames.result(), strict=True):
            self.waiting_bytes -= len(block.payload)
            codec, stored = transposed_frame(frame, block.payload)
            done.append((block, codec, stored))
        return done
