"""The entry cache: single entries that lookups read from disk.

Of the 35 entries of a block, lookups may want one again, and that one takes a twentieth of the block's
memory.  Eviction is S3-FIFO, as in :mod:`lsmkv.sstable.block_cache`, which decides how much memory
entries get.

An entry is a ``bytes`` object of its own: the length of the key and the expiry in eight bytes, key,
value.  Everything else is a few numbers in arrays, by slot: a dict and two queues of objects would take
half as much memory again.

In plain Python an interrupt may come in the middle of a change.  The cache is emptied then.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_le
from librt.vecs import append, vec
from mypy_extensions import i32, i64, u8

from lsmkv.encoding.entries import ABSENT, Absent
from lsmkv.encoding.expiry import Expiring, Held
from lsmkv.encoding.words import is_same

_HEAD_BYTES: Final = 8
_LENGTH_BITS: Final = 20  # of a key's length; the expiry, plus one, stands above
_LENGTHS: Final = 0xF_FFFF
_TAGS: Final = 0x7FFF_FFFF  # the bits of a hash that slots keep

SLOT_BYTES: Final = 48  # of memory: an entry's place in the arrays, and that of an evicted one
_OBJECT_BYTES: Final = 33  # of a bytes object, beside its bytes
_FEWEST_BUCKETS: Final = 64
SMALL_DIVISOR: Final = 10  # the small queue has a tenth of the memory
MOST_HITS: Final = 3  # that count


class _Queue:
    """A queue of slots, linked both ways."""

    def __init__(self) -> None:
        self.oldest: i64 = -1
        self.newest: i64 = -1
        self.used_bytes: i64 = 0


class _Slots:
    """The entries, and the two queues.  Replaced as a whole to empty the cache."""

    def __init__(self) -> None:
        self.records: list[bytes | None] = []  # by slot; None for a free one
        self.tags = vec[i32]()  # low bits of the hashes of keys, by slot
        self.chain = vec[i32]()  # the next slot of the same bucket
        # older, newer: neighbours in the queue.
        self.older = vec[i32]()
        self.newer = vec[i32]()
        self.hits = vec[u8]()  # how often it was found, up to three
        self.in_main = vec[u8]()  # whether the slot is in the main queue
        self.heads = vec[i32]([-1] * _FEWEST_BUCKETS)  # by bucket, its first slot
        self.mask: i64 = _FEWEST_BUCKETS - 1  # of a tag, the bits that are its bucket
        # By bucket, the tag of an entry that left the small queue; 0 for none.
        self.ghosts = vec[i32]([0] * _FEWEST_BUCKETS)
        self.left_at = vec[i64]([0] * _FEWEST_BUCKETS)  # by bucket, how many had left before
        self.left: i64 = 0  # how many have left
        self.free: i64 = -1  # linked by ``chain``
        self.small = _Queue()
        self.main = _Queue()
        self.count: i64 = 0

    def take(self, record: bytes, tag: i64) -> i64:
        """A slot with that record, in its bucket, and in no queue."""
        slot = self.free
        if slot >= 0:
            self.free = i64(self.chain[slot])
        else:
            slot = len(self.records)
            self.records.append(None)
            self.tags = append(self.tags, i32(0))
            self.chain = append(self.chain, i32(-1))
            self.older = append(self.older, i32(-1))
            self.newer = append(self.newer, i32(-1))
            self.hits = append(self.hits, u8(0))
            self.in_main = append(self.in_main, u8(0))
            if slot >= len(self.heads):
                self._double_buckets()
        bucket = tag & self.mask
        self.tags[slot] = i32(tag)
        self.hits[slot] = 0
        self.chain[slot] = self.heads[bucket]
        self.records[slot] = record
        self.heads[bucket] = i32(slot)
        self.count += 1
        return slot

    def _double_buckets(self) -> None:
        """Twice the buckets; what was remembered of evicted entries goes."""
        count = 2 * len(self.heads)
        heads = vec[i32]([-1] * count)
        mask: i64 = count - 1
        for slot in range(i64(len(self.records))):
            if self.records[slot] is not None:
                bucket = i64(self.tags[slot]) & mask
                self.chain[slot] = heads[bucket]
                heads[bucket] = i32(slot)
        self.ghosts = vec[i32]([0] * count)
        self.left_at = vec[i64]([0] * count)
        self.heads = heads  # before the mask: another thread may look a key up
        self.mask = mask

    def let_go(self, slot: i64) -> None:
        """Free a slot that is in no queue."""
        bucket = i64(self.tags[slot]) & self.mask
        at = i64(self.heads[bucket])
        if at == slot:
            self.heads[bucket] = self.chain[slot]
        else:
            while i64(self.chain[at]) != slot:
                at = i64(self.chain[at])
            self.chain[at] = self.chain[slot]
        self.records[slot] = None
        self.chain[slot] = i32(self.free)
        self.free = slot
        self.count -= 1

    def note_left(self, tag: i64) -> None:
        """Remember, for a while, that an entry left the small queue."""
        bucket = tag & self.mask
        self.ghosts[bucket] = i32(tag)
        self.left_at[bucket] = self.left
        self.left += 1

    def has_left(self, tag: i64) -> bool:
        """Whether such an entry left, and since then fewer than there are."""
        bucket = tag & self.mask
        if not tag or i64(self.ghosts[bucket]) != tag:
            return False
        self.ghosts[bucket] = 0
        return self.left - self.left_at[bucket] <= self.count

    def join(self, queue: _Queue, slot: i64, charge_bytes: i64) -> None:
        self.older[slot] = i32(queue.newest)
        self.newer[slot] = i32(-1)
        if queue.newest >= 0:
            self.newer[queue.newest] = i32(slot)
        else:
            queue.oldest = slot
        queue.newest = slot
        queue.used_bytes += charge_bytes
        self.in_main[slot] = 0
        if queue is self.main:
            self.in_main[slot] = 1

    def leave(self, queue: _Queue, slot: i64, charge_bytes: i64) -> None:
        older, newer = self.older[slot], self.newer[slot]
        if older >= 0:
            self.newer[i64(older)] = newer
        else:
            queue.oldest = i64(newer)
        if newer >= 0:
            self.older[i64(newer)] = older
        else:
            queue.newest = i64(older)
        queue.used_bytes -= charge_bytes


def _charge_bytes(record: bytes) -> i64:
    """About the memory that an entry takes."""
    size: i64 = len(record) + _OBJECT_BYTES
    return ((size + 15) >> 4 << 4) + SLOT_BYTES


def _is_of(record: bytes, key: bytes) -> bool:
    """Whether ``record`` is the entry of ``key``."""
    length: i64 = len(key)
    return read_i64_le(record, 0) & _LENGTHS == length and is_same(
        record, _HEAD_BYTES, key, 0, length
    )


class EntryCache:
    """Entries by key.  A lookup takes no lock; a change takes that of the block cache."""

    def __init__(self) -> None:
        self._slots = _Slots()
        self.used_bytes: i64 = 0  # about the memory of all entries
        self.target_bytes: i64 = 0  # what they may take
        self._has_evicted = False
        self.epoch: i64 = 0  # only entries that were read in it are added

    def __len__(self) -> int:
        return int(self._slots.count)

    def get(self, key: bytes, h: i64) -> Held | Absent:
        """The entry of ``key``, whose hash is ``h``; ABSENT if it is not here.  O(1)."""
        # As _find, without the cost of a call.
        slots = self._slots
        tag = h & _TAGS
        slot = i64(slots.heads[tag & slots.mask])
        while slot >= 0:
            if i64(slots.tags[slot]) == tag:
                record = slots.records[slot]
                if record is not None and _is_of(record, key):
                    if slots.hits[slot] < MOST_HITS:
                        slots.hits[slot] += 1
                    head = read_i64_le(record, 0)
                    value = record[_HEAD_BYTES + len(key) :]
                    if head >> _LENGTH_BITS:
                        return Expiring(value, (head >> _LENGTH_BITS) - 1)
                    return value
            slot = i64(slots.chain[slot])
        return ABSENT

    def holds(self, key: bytes, h: i64) -> bool:
        """Whether there is an entry of ``key``; not a hit."""
        return self._find(key, h & _TAGS) >= 0

    def _find(self, key: bytes, tag: i64) -> i64:
        slots = self._slots
        slot = i64(slots.heads[tag & slots.mask])
        while slot >= 0:
            if i64(slots.tags[slot]) == tag:
                record = slots.records[slot]
                if record is not None and _is_of(record, key):
                    return slot
            slot = i64(slots.chain[slot])
        return -1

    # Changes (the lock is held)

    def put(self, key: bytes, h: i64, held: bytes | Expiring) -> bool:
        """Keep an entry, evicting others; returns whether it was evicted lately.  O(1) amortised."""
        try:
            return self._put(key, h, held)
        except BaseException:
            self.clear()
            raise

    def _put(self, key: bytes, h: i64, held: bytes | Expiring) -> bool:
        tag = h & _TAGS
        if self._find(key, tag) >= 0:
            return False  # another thread was faster
        if isinstance(held, Expiring):
            head, value = ((held.expires_at_s + 1) << _LENGTH_BITS) | len(key), held.value
        else:
            head, value = len(key), held
        record = head.to_bytes(_HEAD_BYTES, "little") + key + value
        charge_bytes = _charge_bytes(record)
        if charge_bytes > self.target_bytes >> 3:
            return False
        slots = self._slots
        has_left = slots.has_left(tag)
        self._make_room(charge_bytes)
        fills_main = (
            not self._has_evicted and slots.small.used_bytes >= self.target_bytes // SMALL_DIVISOR
        )
        queue = slots.main if has_left or fills_main else slots.small
        slots.join(queue, slots.take(record, tag), charge_bytes)
        self.used_bytes += charge_bytes
        return has_left

    def trim(self) -> None:
        """Evict entries until the others keep to the target."""
        try:
            self._make_room(0)
        except BaseException:
            self.clear()
            raise

    def _make_room(self, more_bytes: i64) -> None:
        slots = self._slots
        while slots.count and self.used_bytes + more_bytes > self.target_bytes:
            self._has_evicted = True
            main_bytes = self.target_bytes - self.target_bytes // SMALL_DIVISOR
            if slots.small.oldest < 0 or slots.main.used_bytes > main_bytes:
                self._evict_from_main()
            else:
                self._evict_from_small()

    def _evict_from_small(self) -> None:
        """Evict the oldest entry of the small queue that was not hit."""
        slots = self._slots
        small, main = slots.small, slots.main
        while small.oldest >= 0:
            slot = small.oldest
            if slots.hits[slot] == 0:
                slots.note_left(i64(slots.tags[slot]))
                self._drop(slot)
                return
            record = slots.records[slot]
            assert record is not None  # each slot in a queue has one
            charge_bytes = _charge_bytes(record)
            slots.leave(small, slot, charge_bytes)
            slots.join(main, slot, charge_bytes)
            slots.hits[slot] = 0

    def _evict_from_main(self) -> None:
        """Evict the oldest entry of the main queue without more rounds."""
        slots = self._slots
        main = slots.main
        while True:
            slot = main.oldest
            if slots.hits[slot] == 0:
                self._drop(slot)
                return
            record = slots.records[slot]
            assert record is not None
            charge_bytes = _charge_bytes(record)
            slots.hits[slot] -= 1
            slots.leave(main, slot, charge_bytes)
            slots.join(main, slot, charge_bytes)

    def _drop(self, slot: i64) -> None:
        slots = self._slots
        record = slots.records[slot]
        assert record is not None
        charge_bytes = _charge_bytes(record)
        slots.leave(slots.main if slots.in_main[slot] else slots.small, slot, charge_bytes)
        slots.let_go(slot)
        self.used_bytes -= charge_bytes

    def forget(self, key: bytes, h: i64) -> None:
        try:
            slot = self._find(key, h & _TAGS)
            if slot >= 0:
                self._drop(slot)
        except BaseException:
            self.clear()
            raise

    def clear(self) -> None:
        self._slots = _Slots()
        self.used_bytes = 0
        self._has_evicted = False
