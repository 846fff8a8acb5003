"""What else denies absent keys that passed: counts of wasted reads, simulated from the papers.

* An LRU of keys: the hashes of the false positives, 8 bytes each and nothing for links, in as much
  memory as the list took.
* Stacked filters (K. Deeds, B. Hentschel, S. Idreos, "Stacked Filters: Learning to Filter by Structure",
  PVLDB 14(4), 2021), three layers of 1 %: the store's filter, one of the known absent keys that pass it,
  and one of the present keys that pass the second.  They are built once, after a tenth of the lookups,
  from the keys that these let pass.
* AdaptiveQF (R. Wen et al., "Adaptive Quotient Filters", 2024, arXiv:2405.10253), for all keys of the
  table: a fingerprint of q + r bits, and at each false positive as many further slots of r bits as tell
  the stored key from the one asked for.  The map back to the stored keys, which it needs, is left out of
  its memory.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from lsmkv.filters.hashing import hash_key, murmur3_32

RIVALS: Final = ("LRU of keys", "stacked filters", "AdaptiveQF")
LRU_ENTRY_BYTES: Final = 8
STACKED_TRAINING: Final = 0.1
LAYER_RATE: Final = 0.01
AQF_REMAINDER_BITS: Final = 7
AQF_SLOT_BITS: Final = AQF_REMAINDER_BITS + 2.125
"""With the metadata of the rank-and-select quotient filter, 2.125 bits."""


class Rival(NamedTuple):
    name: str
    reads: int
    bits: float


def lru(passing: Iterable[bytes], capacity_bytes: int) -> Rival:
    """``passing``: each lookup of a key that the filters let pass."""
    most = max(1, capacity_bytes // LRU_ENTRY_BYTES)
    kept: OrderedDict[bytes, None] = OrderedDict()
    reads = 0
    for key in passing:
        if key in kept:
            kept.move_to_end(key)
            continue
        reads += 1
        if len(kept) == most:
            kept.popitem(last=False)
        kept[key] = None
    return Rival(RIVALS[0], reads, 8 * LRU_ENTRY_BYTES * most)


def stacked(absent: Sequence[bytes], passing: Collection[bytes], keys: Sequence[bytes]) -> Rival:
    """``passing`` are those of the ``absent`` keys that the first layer lets pass."""
    trained = int(STACKED_TRAINING * len(absent))
    known = {key for key in absent[:trained] if key in passing}
    reads = sum(key in known for key in absent[:trained])
    denied = {
        key
        for key in passing
        if (key in known or _layer_allows(key, 2)) and not _layer_allows(key, 3)
    }
    reads += sum(key in passing and key not in denied for key in absent[trained:])
    bits_per_entry = math.log2(1 / LAYER_RATE) / math.log(2)
    third = sum(_layer_allows(key, 2) for key in keys)
    return Rival(RIVALS[1], reads, bits_per_entry * (len(known) + third))


def _layer_allows(key: bytes, layer: int) -> bool:
    """Whether a Bloom filter of :data:`LAYER_RATE` lets a key pass that it does not hold."""
    return murmur3_32(key, layer) < LAYER_RATE * 2**32


def adaptive_quotient(absent: Iterable[bytes], keys: Sequence[bytes]) -> Rival:
    quotient_bits = math.ceil(math.log2(len(keys) / 0.95))
    bits = quotient_bits + AQF_REMAINDER_BITS
    stored: dict[int, dict[int, int]] = {}  # by fingerprint: hashes, and the bits held of each
    for h in map(hash_key, keys):
        stored.setdefault(h & ((1 << bits) - 1), {})[h] = bits
    reads = slots = 0
    for h in map(hash_key, absent):
        near = stored.get(h & ((1 << bits) - 1), {})
        passed = False
        for other in near:
            while (h ^ other) & ((1 << near[other]) - 1) == 0:
                passed = True
                near[other] += AQF_REMAINDER_BITS
                slots += 1
        reads += passed
    return Rival(RIVALS[2], reads, AQF_SLOT_BITS * slots)
