"""What goes between a store and its helper processes, over pipes.

A message is its length (u32, little-endian) and one of the structs below in MessagePack.  The helper
says :class:`Ready` first; then each job is answered by :class:`Done` or :class:`Failed`.
"""

from __future__ import annotations

import os
import struct
from typing import Final

import msgspec

from lsmkv.background.process.exceptions import Failure
from lsmkv.background.process.jobs import CompactionJob, FlushJob, Job
from lsmkv.sstable.format import TableMeta

_LENGTH: Final = struct.Struct("<I")


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The helper has started.  ``package`` is the folder that it has this package from."""

    package: bytes


class Done(msgspec.Struct, frozen=True, tag=True):
    """The job has written these tables, and counted this (fields of ``Stats``, by name)."""

    tables: list[TableMeta]
    counters: dict[str, int]


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The job failed, and left nothing behind."""

    failure: Failure
    counters: dict[str, int]


Reply = Ready | Done | Failed

_ENCODER: Final = msgspec.msgpack.Encoder()
_JOBS: Final = msgspec.msgpack.Decoder(FlushJob | CompactionJob)
_REPLIES: Final = msgspec.msgpack.Decoder(Ready | Done | Failed)


def encode(message: Job | Reply) -> bytes:
    """``message`` as it goes into the pipe."""
    data = _ENCODER.encode(message)
    return _LENGTH.pack(len(data)) + data


def decode_job(data: bytes) -> Job:
    """The job in a message; ``msgspec.MsgspecError`` if there is none."""
    job: Job = _JOBS.decode(data)
    return job


def decode_reply(data: bytes) -> Reply:
    """The reply in a message; ``msgspec.MsgspecError`` if there is none."""
    reply: Reply = _REPLIES.decode(data)
    return reply


class MessageBuffer:
    """Puts messages together from the pieces in which they come out of a pipe."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, piece: bytes) -> None:
        """Take what was read."""
        self._data += piece

    def next(self) -> bytes | None:
        """The next whole message; None until it has come."""
        if len(self._data) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._data)
        end = _LENGTH.size + length
        if len(self._data) < end:
            return None
        message = bytes(self._data[_LENGTH.size : end])
        del self._data[:end]
        return message


def package_folder() -> str:
    """The folder of ``lsmkv`` that this process runs."""
    here = os.path.dirname(os.path.abspath(__file__))
    return os.path.dirname(os.path.dirname(here))
