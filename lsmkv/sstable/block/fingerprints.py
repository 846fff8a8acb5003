"""The fingerprints of a block's keys, made anew: for payloads that are read without them."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from librt.strings import BytesWriter, read_i32_le
from mypy_extensions import i64

from lsmkv.encoding.words import COMPILED
from lsmkv.filters.hashing import DIGEST_BYTES, append_fingerprint, digests
from lsmkv.sstable.block.lengths import with_prefix

# Of the prefixes of whole keys that are made at a time.
_MOST_PREFIX_BYTES: Final = 64 * 1024


def made_fingerprints(
    payload: bytes, prefix: i64, fingerprints: i64, keys: i64, count: i64, width: i64, ends: bytes
) -> bytes:
    """``payload`` as far as its fingerprints end, and these made of its ``count`` keys, at ``keys``.

    ``prefix`` is where what the keys share begins; it ends at ``fingerprints``.  Each key is
    ``width`` bytes long without it, or else they end at ``ends``
    (:func:`~lsmkv.sstable.block.lengths.running_ends`).
    """
    out = BytesWriter()
    out.write(payload[:fingerprints])
    # As many keys at a time as their prefix allows: it may be long, and they may be many.
    most = max(1, _MOST_PREFIX_BYTES // (fingerprints - prefix + 1))
    start: i64 = 0
    while start < count:
        stop = min(count, start + most)
        low = _key_end(width, ends, start)
        if COMPILED:
            part = ends[4 * start : 4 * stop + 4]
            length = fingerprints - prefix
            whole = with_prefix(payload, prefix, length, keys + low, stop - start, width, part)
            at: i64 = 0
            for position in range(start, stop):
                high = _key_end(width, ends, position + 1)
                end = at + length + high - low
                append_fingerprint(out, whole, at, end)
                at, low = end, high
        else:  # calls for many keys, where a loop over words is slow
            bounds = [keys + _key_end(width, ends, at) for at in range(start, stop + 1)]
            shared = payload[prefix:fingerprints]
            found = [shared + payload[low:high] for low, high in pairwise(bounds)]
            out.write(digests(found)[::DIGEST_BYTES])
        start = stop
    return out.getvalue()


def _key_end(width: i64, ends: bytes, position: i64) -> i64:
    """How many bytes the first ``position`` keys take together."""
    if width >= 0:
        return width * position
    end: int = read_i32_le(ends, 4 * position)
    return end
