"""Figures from documents on Bloom filters, beside this package's.

``python -m bench figures [--into FILE]`` prints them, or puts them into the marked section of a
Markdown file.  Everything is computed again, from the seeds written here.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from lsmkv import filters
from lsmkv.filters import (
    BloomFilter,
    CountingBloomFilter,
    CuckooFilter,
    FoldableBloomFilter,
    KnownFalsePositives,
    RollingBloomFilter,
    StrategyBloomFilter,
    Window,
    strategy_named,
)

BEGIN: Final = "<!-- bench figures -->\n"
END: Final = "<!-- end of figures -->\n"

Figure = tuple[str, str, str]  # the system, the stated figure, the figure here

_ANIMALS: Final = b"""dog cat giraffe fly mosquito horse eagle bird bison boar butterfly ant anaconda
    bear chicken dolphin donkey crow crocodile""".split()
_OTHER_ANIMALS: Final = b"""badger cow pig sheep bee wolf fox whale shark fish turkey duck dove deer
    elephant frog falcon goat gorilla hawk""".split()
_WORDS: Final = b"""abound abounds abundance abundant accessible bloom blossom bolster bonny bonus
    bonuses coherent cohesive colorful comely comfort gems generosity generous generously
    genial""".split()
_OTHER_WORDS: Final = b"""bluff cheater hate war humanity racism hurt nuke gloomy facebook
    geeksforgeeks twitter""".split()


def figures() -> Iterator[Figure]:
    """Every figure, one after another; some seconds of work."""
    yield from _sizes()
    yield from _strategies()
    yield from _others()
    yield from _operations()


def _sizes() -> Iterator[Figure]:
    for rate, stated in ((1e-6, "3.59 MB"), (1e-3, "1.80 MB")):
        found = filters.bits_for(1_000_000, rate) / 8e6
        yield f"classic, 1,000,000 keys, p = {rate:g}", stated, f"{found:.2f} MB"
    yield "classic, 1,000 keys, p = 1 %", "9586 bits", f"{filters.bits_for(1000, 0.01)} bits"
    yield (
        "classic, 1,000,000 bits, 100,000 keys",
        "k = 7",
        f"k = {filters.probes_for(10**6, 10**5)}",
    )


def _strategies() -> Iterator[Figure]:
    blacklist = StrategyBloomFilter(1_000_000, 7, strategy_named("djb2"))
    blacklist.add(b"192.168.1.1")
    passed = sum(blacklist.may_contain(b"192.168.1.%d" % last) for last in range(1, 100_000))
    yield "DJB2 with a prefix, of 99,999 addresses", "1 passes", f"{passed} passes"
    animals = StrategyBloomFilter(10_000, 20, strategy_named("seeded-murmur3"))
    for animal in _ANIMALS:
        animals.add(animal)
    wrong = sum(map(animals.may_contain, _OTHER_ANIMALS))
    yield "20 seeded mmh3, 20 animals not added", "0 pass", f"{wrong} pass"
    words = StrategyBloomFilter(100, 10, strategy_named("sha256"))
    for word in _WORDS:
        words.add(word)
    wrong = sum(map(words.may_contain, _OTHER_WORDS))
    yield "sha256 of key and number, 12 words not added", "4 pass", f"{wrong} pass"
    ratios = []
    for name in ("product", "double-hashing"):
        rng, probes, passed, asked = random.Random(7), strategy_named(name).probes, 0, 240_000
        for _ in range(asked // 60):
            bits: set[int] = set()
            for _ in range(30):
                bits.update(probes(rng.randbytes(16), 300, 7))
            passed += sum(bits.issuperset(probes(rng.randbytes(16), 300, 7)) for _ in range(60))
        ratios.append(passed / asked / filters.exact_rate(300, 30, 7))
    yield "one hash, k probes, 30 keys in 300 bits: measured / exact", "1.00", f"{ratios[0]:.2f}"
    yield "the same with h1 + i h2", "1.54", f"{ratios[1]:.2f}"


def _others() -> Iterator[Figure]:
    ratio = filters.partitioned_rate(280, 30, 7) / filters.exact_rate(280, 30, 7)
    yield "partitioned at equal bits, 30 keys: rate / classic", "slightly over 1", f"{ratio:.3f}"
    bits = filters.single_hash_bits_for(10_000, 0.01) / 10_000
    yield "one hash, p = 1 %, bits per key", "100", f"{bits:.1f}"
    crossover = filters.crossover_keys(0.01)
    yield (
        "keys from which one hash beats sorted fingerprints, p = 1 %",
        "1.28e28",
        f"{crossover:.3g}",
    )
    for width in (4, 8):
        counting = CountingBloomFilter(64, 3, width)
        for _ in range(300):
            counting.add(b"key")
        for _ in range(300):
            counting.remove(b"key")
        outcome = f"{counting.largest_count}; after 300 deletes {counting.count_of(b'key')}"
        yield (
            f"counting, {width} bits, a key added 300 times",
            "stays at the largest count",
            outcome,
        )
    lives = []
    for first in range(100):
        rolling = RollingBloomFilter.for_window(Window(inserts=100), 100, 1e-9)
        for other in range(first):
            rolling.add(b"before %d" % other)
        rolling.add(b"key")
        after = 0
        while rolling.may_contain(b"key"):
            rolling.add(b"after %d" % after)
            after += 1
        lives.append(after)
    spans = f"{min(lives)} to {max(lives)} inserts"
    yield "rolling, windows of 100 inserts: a key lives", "one to two windows", spans
    cuckoo, kept = CuckooFilter(64, 12), 0
    try:
        while True:
            cuckoo.add(b"%d" % kept)
            kept += 1
    except filters.FilterFullError:
        held = sum(cuckoo.may_contain(b"%d" % number) for number in range(kept))
    yield "cuckoo, filled until it refuses", "loses nothing", f"{held} of {kept} held"


def _operations() -> Iterator[Figure]:
    left, right, both = (BloomFilter.for_bits(3000, 300) for _ in range(3))
    for number in range(300):
        (left if number % 2 else right).add(b"%d" % number)
        both.add(b"%d" % number)
    same = left.union(right).to_bytes() == both.to_bytes()
    yield (
        "union of two filters",
        "as if built from both sets",
        "the same bytes" if same else "differs",
    )
    rng, passed, asked = random.Random(8), 0, 60_000
    for _ in range(asked // 60):
        folded = FoldableBloomFilter(144, 7, 4)
        for _ in range(30):
            folded.add_hash(rng.getrandbits(63))
        folded = folded.fold().fold()
        passed += sum(folded.may_contain_hash(rng.getrandbits(63)) for _ in range(60))
    ratio = passed / asked / filters.exact_rate(288, 30, 7)
    yield "folded twice: measured / exact of a filter of that size", "1", f"{ratio:.2f}"
    inner = BloomFilter.for_keys(1000, 0.05)
    for number in range(1000):
        inner.add(b"key %d" % number)
    known = KnownFalsePositives(inner)
    absent = [b"absent %d" % number for number in range(4000)]
    for key in absent:
        if known.may_contain(key):
            known.remember(key)
    repeats = sum(map(known.may_contain, absent))
    yield (
        "remembered false positives, asked again",
        "0 pass",
        f"{repeats} of {known.known_count} pass",
    )
    bound = filters.over_lower_bound(filters.bits_for(100_000, 0.01), 100_000, 0.01)
    yield "classic, bits by log2(1/p)", "1.44", f"{bound:.2f}"


def markdown() -> str:
    rows = [f"| {system} | {stated} | {found} |" for system, stated, found in figures()]
    head = ["| | stated | here |", "|---|---|---|"]
    return "\n".join(
        ["Command: `python -m bench figures --into docs/filters.md`.", "", *head, *rows]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or put it into a file."""
    parser = argparse.ArgumentParser(prog="bench figures", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--into", type=Path, help=f"a file with lines {BEGIN.strip()} and {END.strip()}"
    )
    chosen = parser.parse_args(arguments)
    table = markdown()
    if chosen.into is None:
        print(table)
        return
    before, _, rest = chosen.into.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    chosen.into.write_text(f"{before}{BEGIN}\n{table}\n\n{END}{after}")
