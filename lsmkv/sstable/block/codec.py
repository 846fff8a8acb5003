"""zstd compression of blocks, transposed first."""

from __future__ import annotations

import threading
from typing import Final

import zstandard

from lsmkv.errors import CorruptionError, Error, UnsupportedFormatError, caused
from lsmkv.sstable.block.transposed import restore, transpose
from lsmkv.sstable.format import CODEC_NONE, CODEC_ZSTD

# The start of every frame (RFC 8878, 3.1.1); omitted from blocks: 4 bytes each.
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_MIN_SAMPLES: Final = 8  # fewer train nothing useful
# A zstd block is at least 4 bytes, header included, and at most 128 KiB uncompressed (RFC 8878).
_MAX_PER_4_BYTES: Final = 128 * 1024
_NO_MEMORY: Final = "not enough memory"  # in zstd's message for a failed allocation
_WORKING_BYTES: Final = 256 * 1024  # enough to load most dictionaries


def _failure(error: zstandard.ZstdError, otherwise: Exception) -> Exception:
    """MemoryError if that is why zstd failed, or else ``otherwise``."""
    has_memory = _NO_MEMORY not in str(error)
    try:
        bytearray(_WORKING_BYTES)
    except MemoryError:
        has_memory = False  # zstd does not say why it cannot load a dictionary
    if has_memory:
        return caused(otherwise, error)
    return caused(MemoryError(f"zstd: {error}"), error)


class Compressor:
    """Compresses at one level, with or without a dictionary.  For one thread.

    It and its methods raise MemoryError or Error if zstd fails.
    """

    def __init__(self, level: int, dictionary: bytes) -> None:
        try:
            trained = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
            self._zstd = zstandard.ZstdCompressor(
                level=level,
                dict_data=trained,
                write_checksum=False,  # block trailers have checksums
                write_content_size=True,
            )
        except zstandard.ZstdError as error:
            raise _failure(error, Error(f"zstd cannot compress at level {level}: {error}"))

    def compress_block(self, payload: bytes) -> tuple[int, bytes]:
        """Codec and stored bytes: ``payload`` itself if compression would save less than 1/16."""
        transposed = transpose(payload)
        try:
            frame = self._zstd.compress(transposed)
        except zstandard.ZstdError as error:
            reason = f"zstd cannot compress {len(transposed)} bytes: {error}"
            raise _failure(error, Error(reason))
        packed = frame[len(_MAGIC) :]
        if len(packed) > len(payload) - len(payload) // 16:
            return CODEC_NONE, payload
        return CODEC_ZSTD, packed


class Decompressor:
    """Undoes :class:`Compressor`.  Any number of threads may share one."""

    def __init__(self, dictionary: bytes) -> None:
        self._dictionary = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        self._local = threading.local()  # a zstd context serves one thread at a time

    def decompress_block(
        self, codec: int, data: bytes, raw_length: int, path: str, offset: int
    ) -> bytes:
        """The payload that ``data`` was made from, without its fingerprints.

        Zeros may follow a payload that was not compressed.  Allocates no more than the payload and its
        transposed form, which is no longer.  Raises CorruptionError unless it has ``raw_length`` bytes,
        UnsupportedFormatError for an unknown codec.
        """
        if codec == CODEC_NONE:
            if len(data) < raw_length:
                reason = "wrong length of a block"
                raise CorruptionError(path, offset, reason, expected=raw_length, got=len(data))
            return data[:raw_length]
        if codec != CODEC_ZSTD:
            reason = f"block at offset {offset} has unknown codec {codec}"
            raise UnsupportedFormatError(path, reason)
        transposed = self._inflated(_MAGIC + data, raw_length, path, offset)
        return restore(transposed, raw_length, path, offset)

    def _inflated(self, data: bytes, most: int, path: str, offset: int) -> bytes:
        """The bytes, ``most`` at the most, that zstd made ``data`` from."""
        most = min(most, (len(data) // 4 + 1) * _MAX_PER_4_BYTES)
        try:
            zstd: zstandard.ZstdDecompressor | None = getattr(self._local, "zstd", None)
            if zstd is None:  # an invalid dictionary fails here
                zstd = zstandard.ZstdDecompressor(dict_data=self._dictionary)
                self._local.zstd = zstd
            if not 0 <= zstandard.frame_content_size(data) <= most:
                raise CorruptionError(path, offset, "a compressed block states another length")
            return zstd.decompress(data)
        except zstandard.ZstdError as error:
            reason = f"a block does not decompress: {error}"
            raise _failure(error, CorruptionError(path, offset, reason))


def train_dictionary(payloads: list[bytes], size_bytes: int) -> bytes:
    """A dictionary of up to ``size_bytes``; empty if the payloads are too few."""
    if len(payloads) < _MIN_SAMPLES:
        return b""
    try:
        return zstandard.train_dictionary(size_bytes, list(map(transpose, payloads))).as_bytes()
    except zstandard.ZstdError:  # too little, or too uniform, to learn from
        return b""
