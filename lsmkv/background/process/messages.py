"""Messages between a store and its helper processes, over pipes.

A message is its length (u32, little-endian) and one of the structs below in MessagePack.  The helper
sends :class:`Ready` first; then it answers each :class:`Order` with ``Written`` or ``Failed``.
"""

from __future__ import annotations

import os
import struct
from typing import IO, Final, Generic, TypeVar

import msgspec

from lsmkv.background.process.jobs import Job
from lsmkv.background.process.staged import Failed, Written

_LENGTH: Final = struct.Struct("<I")
_PIECE_BYTES: Final = 1 << 16
_Message = TypeVar("_Message")


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The helper has started, with ``lsmkv`` from the folder ``package``."""

    package: bytes


class Order(msgspec.Struct, frozen=True):
    """Run ``job``; its tables go to a new folder in the directory ``staging``."""

    job: Job
    staging: bytes


Reply = Ready | Written | Failed

_ENCODER: Final = msgspec.msgpack.Encoder()
ORDERS: Final[msgspec.msgpack.Decoder[Order]] = msgspec.msgpack.Decoder(Order)
REPLIES: Final[msgspec.msgpack.Decoder[Reply]] = msgspec.msgpack.Decoder(Reply)


def send(pipe: IO[bytes], message: Order | Reply) -> None:
    """Write to an unbuffered pipe; BrokenPipeError if the other end is closed."""
    data = _ENCODER.encode(message)
    left = memoryview(_LENGTH.pack(len(data)) + data)
    while left:
        left = left[pipe.write(left) :]


class MessageReader(Generic[_Message]):
    """Reads messages from an unbuffered pipe, piece by piece."""

    def __init__(self, pipe: IO[bytes], decoder: msgspec.msgpack.Decoder[_Message]) -> None:
        self._pipe = pipe
        self._decoder = decoder
        self._data = bytearray()

    def read_piece(self) -> bool:
        """Read once from the pipe; False at its end."""
        piece = self._pipe.read(_PIECE_BYTES)
        self._data += piece
        return bool(piece)

    def next(self) -> _Message | None:
        """The next message, if all of it has arrived; ``msgspec.MsgspecError`` if it is malformed."""
        if len(self._data) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._data)
        end = _LENGTH.size + length
        if len(self._data) < end:
            return None
        message = bytes(self._data[_LENGTH.size : end])
        del self._data[:end]
        return self._decoder.decode(message)


def package_folder() -> str:
    here = os.path.dirname(os.path.abspath(__file__))
    return os.path.dirname(os.path.dirname(here))
