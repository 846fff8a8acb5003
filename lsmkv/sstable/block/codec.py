"""Compression of blocks, whose payloads are reduced first, and of indexes.

The only user of ``zstandard``.
"""

from __future__ import annotations

import threading
from typing import Final

import zstandard

from lsmkv.errors import CorruptionError, Error, UnsupportedFormatError, caused
from lsmkv.sstable.block.transposed import reduce, restore
from lsmkv.sstable.format import CODEC_NONE, CODEC_ZSTD, CODEC_ZSTD_REDUCED

# What every frame begins with (RFC 8878, 3.1.1); blocks, which are many, keep it to themselves.
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_FRAME_KEEPS_NO_CHECKSUM: Final = False  # blocks carry their own
# Fewer and smaller samples than this train nothing useful (zstd asks for about 100 times the size).
_MIN_SAMPLES: Final = 8
# A zstd block is at least 4 bytes, header included, and at most 128 KiB uncompressed (RFC 8878).
_MOST_PER_4_BYTES: Final = 128 * 1024
# How zstd names a failure to get memory, which is no fault of what it was given.
_NO_MEMORY: Final = "not enough memory"
_WORKING_BYTES: Final = 256 * 1024  # what it takes to load most dictionaries


def _failure(error: zstandard.ZstdError, otherwise: Exception) -> Exception:
    """What to raise for ``error``: MemoryError, if zstd got none, or else ``otherwise``."""
    has_memory = _NO_MEMORY not in str(error)
    try:
        bytearray(_WORKING_BYTES)
    except MemoryError:
        has_memory = False  # of a dictionary that cannot be loaded zstd does not say why
    if has_memory:
        return caused(otherwise, error)
    return caused(MemoryError(f"zstd: {error}"), error)


class Compressor:
    """Compresses at one level, with or without a dictionary.  For one thread.

    Raises, as its methods do:
        MemoryError: there is not enough for zstd.
        Error: zstd fails otherwise.
    """

    def __init__(self, level: int, dictionary: bytes) -> None:
        try:
            self._zstd = self._made(level, dictionary)
        except zstandard.ZstdError as error:
            raise _failure(error, Error(f"zstd cannot compress at level {level}: {error}"))

    def _made(self, level: int, dictionary: bytes) -> zstandard.ZstdCompressor:
        trained = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        return zstandard.ZstdCompressor(
            level=level,
            dict_data=trained,
            write_checksum=_FRAME_KEEPS_NO_CHECKSUM,
            write_content_size=True,
        )

    def compress(self, raw: bytes) -> tuple[int, bytes]:
        """Codec and stored bytes: ``raw`` itself when compression would save less than 1/16."""
        return _smaller(CODEC_ZSTD, self._frame(raw), raw)

    def compress_block(self, payload: bytes) -> tuple[int, bytes]:
        """As :meth:`compress`, for the payload of a block."""
        frame = self._frame(reduce(payload))
        return _smaller(CODEC_ZSTD_REDUCED, frame[len(_MAGIC) :], payload)

    def _frame(self, raw: bytes) -> bytes:
        try:
            return self._zstd.compress(raw)
        except zstandard.ZstdError as error:
            raise _failure(error, Error(f"zstd cannot compress {len(raw)} bytes: {error}"))


def _smaller(codec: int, packed: bytes, raw: bytes) -> tuple[int, bytes]:
    """Codec and stored bytes: ``packed``, or ``raw`` when that saves less than 1/16."""
    if len(packed) > len(raw) - len(raw) // 16:
        return CODEC_NONE, raw
    return codec, packed


class Decompressor:
    """Undoes :class:`Compressor`.  Any number of threads may share one."""

    def __init__(self, dictionary: bytes) -> None:
        self._dictionary = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        self._local = threading.local()  # a zstd context serves one thread at a time

    def decompress(self, codec: int, data: bytes, raw_length: int, path: str, offset: int) -> bytes:
        """The ``raw_length`` bytes that ``data`` was made from.  Allocates no more than that.

        Raises:
            CorruptionError: it does not decompress to that length.
            UnsupportedFormatError: no such codec.
            MemoryError: there is not enough for zstd.
        """
        if codec == CODEC_NONE:
            if len(data) != raw_length:
                raise CorruptionError(
                    path, offset, "wrong length of a block", expected=raw_length, got=len(data)
                )
            return data
        if codec != CODEC_ZSTD:
            raise UnsupportedFormatError(
                path, f"block at offset {offset} has unknown codec {codec}"
            )
        return self._inflated(data, raw_length, raw_length, path, offset)

    def decompress_block(
        self, codec: int, data: bytes, raw_length: int, path: str, offset: int
    ) -> bytes:
        """As :meth:`decompress`, for the payload of a block; of a reduced one without fingerprints.

        Allocates no more than the payload and its reduced form, which is no longer.
        """
        if codec != CODEC_ZSTD_REDUCED:
            return self.decompress(codec, data, raw_length, path, offset)
        reduced = self._inflated(_MAGIC + data, 0, raw_length, path, offset)
        return restore(reduced, raw_length, path, offset)

    def _inflated(self, data: bytes, least: int, most: int, path: str, offset: int) -> bytes:
        """What zstd made ``data`` of: at least and at most so many bytes."""
        possible = (len(data) // 4 + 1) * _MOST_PER_4_BYTES
        if least > possible:
            raise CorruptionError(
                path, offset, f"{len(data)} compressed bytes cannot hold {least} bytes"
            )
        try:
            zstd: zstandard.ZstdDecompressor | None = getattr(self._local, "zstd", None)
            if zstd is None:  # a dictionary that is none is an error here
                zstd = zstandard.ZstdDecompressor(dict_data=self._dictionary)
                self._local.zstd = zstd
            if not least <= zstandard.frame_content_size(data) <= min(most, possible):
                raise CorruptionError(path, offset, "a compressed block states another length")
            return zstd.decompress(data)
        except zstandard.ZstdError as error:
            reason = f"a block does not decompress: {error}"
            raise _failure(error, CorruptionError(path, offset, reason))


def train_dictionary(payloads: list[bytes], size_bytes: int) -> bytes:
    """A dictionary of up to ``size_bytes`` from payloads of blocks; empty when they are too few."""
    if len(payloads) < _MIN_SAMPLES:
        return b""
    try:
        return zstandard.train_dictionary(size_bytes, list(map(reduce, payloads))).as_bytes()
    except zstandard.ZstdError:  # too little, or too uniform, to learn from
        return b""
