"""Compression of block payloads; the only user of ``zstandard``."""

from __future__ import annotations

import threading

import zstandard

from lsmkv.errors import CorruptionError, UnsupportedFormatError
from lsmkv.sstable.layout import CODEC_NONE, CODEC_ZSTD

_FRAME_KEEPS_NO_CHECKSUM = False  # blocks carry their own
# Fewer and smaller samples than this train nothing useful (zstd asks for about 100 times the size).
_MIN_SAMPLES = 8
# A zstd block is at least 4 bytes, header included, and at most 128 KiB uncompressed (RFC 8878).
_MOST_PER_4_BYTES = 128 * 1024


class Compressor:
    """Compresses payloads at one level, with or without a dictionary.  For one thread."""

    def __init__(self, level: int, dictionary: bytes) -> None:
        trained = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        self._zstd = zstandard.ZstdCompressor(
            level=level,
            dict_data=trained,
            write_checksum=_FRAME_KEEPS_NO_CHECKSUM,
            write_content_size=True,
        )

    def compress(self, raw: bytes) -> tuple[int, bytes]:
        """Codec and stored bytes: ``raw`` itself when compression would save less than 1/16."""
        packed = self._zstd.compress(raw)
        if len(packed) > len(raw) - len(raw) // 16:
            return CODEC_NONE, raw
        return CODEC_ZSTD, packed


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
        if raw_length > (len(data) // 4 + 1) * _MOST_PER_4_BYTES:
            raise CorruptionError(
                path, offset, f"{len(data)} compressed bytes cannot hold {raw_length} bytes"
            )
        try:
            zstd: zstandard.ZstdDecompressor | None = getattr(self._local, "zstd", None)
            if zstd is None:  # a dictionary that is none is an error here
                zstd = zstandard.ZstdDecompressor(dict_data=self._dictionary)
                self._local.zstd = zstd
            if zstandard.frame_content_size(data) != raw_length:
                raise CorruptionError(path, offset, "a compressed block states another length")
            return zstd.decompress(data)
        except zstandard.ZstdError as error:
            raise CorruptionError(path, offset, f"a block does not decompress: {error}") from error


def train_dictionary(samples: list[bytes], size_bytes: int) -> bytes:
    """A dictionary of up to ``size_bytes`` from sample payloads; empty when they are too few."""
    if len(samples) < _MIN_SAMPLES:
        return b""
    try:
        return zstandard.train_dictionary(size_bytes, list(samples)).as_bytes()
    except zstandard.ZstdError:  # too little, or too uniform, to learn from
        return b""
