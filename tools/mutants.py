"""Breaks the engine in 21 places, and runs the tests on each.  ``python -m tools.mutants``

Each mutant is one change to a copy of this checkout.  The tests that ``make test`` runs must fail on it;
those of ``tests/tools``, which compare texts and count instructions, are left out.  The whole run takes
up to an hour; a mutant's number runs that one alone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.builds import CHECKOUT, environment


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change to one file of lsmkv: ``text``, which stands in it once, becomes ``changed``."""

    harm: str
    file: str
    text: str
    changed: str

    def apply(self, checkout: Path) -> None:
        """Change the file below ``checkout``; ValueError if it does not hold the text once."""
        path = checkout / "lsmkv" / self.file
        source = path.read_text("utf-8")
        if source.count(self.text) != 1:
            raise ValueError(f"{path}: {self.text!r} must be there once")
        path.write_text(source.replace(self.text, self.changed), "utf-8")


MUTANTS: Final = (
    Mutant("a log is not synced", "log/writer.py", "        self._file.sync()\n", ""),
    Mutant(
        "damage to a synced log is taken for a torn tail",
        "log/chain.py",
        "if log.previous_end > before.end:",
        "if False:",
    ),
    Mutant("a table is not synced", "sstable/table_file.py", "        self._file.sync()\n", ""),
    Mutant(
        "a block's checksum is not checked",
        "sstable/block/trailer.py",
        "if got != stored:",
        "if False:",
    ),
    Mutant(
        "a get does not ask the filter",
        "sstable/reader.py",
        "find(key)\n        if filters.per_block and",
        "find(key)\n        if False and",
    ),
    Mutant(
        "a filter is asked for other bits than it was given",
        "filters/bloom.py",
        "((h >> 31) * bit_count) >> 32\n        if not (bits[start",
        "((h >> 32) * bit_count) >> 32\n        if not (bits[start",
    ),
    Mutant(
        "a lookup passes over one waiting memtable",
        "read/view.py",
        "        for memtable in self.flushing:\n            found = memtable.get(key)",
        "        for memtable in self.flushing[1:]:\n            found = memtable.get(key)",
    ),
    Mutant(
        "the newest memtable is flushed first",
        "background/flusher.py",
        "memtable = current.flushing[-1]",
        "memtable = current.flushing[0]",
    ),
    Mutant(
        "a put keeps no old value for snapshots",
        "memtable/memtable.py",
        "        if keep_old:\n            self._keep_old(key, seq)\n        self._live[key] = value",
        "        self._live[key] = value",
    ),
    Mutant(
        "a compaction drops what a snapshot sees",
        "compaction/merge.py",
        "snapshots[at] < newer_seq",
        "snapshots[at] <= newer_seq",
    ),
    Mutant(
        "a compaction drops a deletion that a snapshot needs",
        "compaction/merge.py",
        "if drop_deletions and seq <= oldest_snapshot:",
        "if drop_deletions:",
    ),
    Mutant(
        "a compaction misses a table that overlaps at one key",
        "tree/levels.py",
        "table.largest >= smallest",
        "table.largest > smallest",
    ),
    Mutant(
        "a compaction drops deletions above older data",
        "compaction/picker.py",
        "    drop = not _overlaps_below(levels, level + 2, smallest, largest)\n    return",
        "    drop = True\n    return",
    ),
    Mutant(
        "a reverse scan merges forwards",
        "read/scan.py",
        "return -order if self._reverse else order",
        "return order",
    ),
    Mutant(
        "a part of a range reaches past the range's end",
        "api/ranges.py",
        "high = end if high is None else min(high, end)",
        "high = end",
    ),
    Mutant(
        "two processes write one store",
        "storage/storage.py",
        "if not _flock(path, descriptor):\n                holder",
        "if False:\n                holder",
    ),
    Mutant(
        "a cached block is evicted, and still counted",
        "sstable/block_cache.py",
        "            self.used_bytes -= item.charge_bytes\n",
        "",
    ),
    Mutant(
        "an obsolete table stays on disk",
        "tree/version_set.py",
        "continue\n                try:\n                    self.storage.remove(",
        "continue\n                try:\n                    str(",
    ),
    Mutant(
        "the mark of the last close counts as synced",
        "log/writer.py",
        "synced = durable if is_synced and contents.ends_marked else end",
        "synced = end",
    ),
    Mutant(
        "a log is synced, and the log before it is not",
        "log/writer.py",
        "predecessor.sync_through(predecessor.end)",
        "pass",
    ),
    Mutant(
        "repair keeps an older entry beside a newer one",
        "salvage/order.py",
        "if key != last:",
        "if True:",
    ),
)


def copies(checkout: Path) -> Iterator[Path]:
    """A fresh copy of the files that git knows, again and again."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=checkout,
        capture_output=True,
        check=True,
    )
    while True:
        with tempfile.TemporaryDirectory(prefix="lsmkv-mutant-") as copy:
            subprocess.run(
                ["xargs", "-0", "cp", "--parents", "-t", copy],
                input=listed.stdout,
                cwd=checkout,
                check=True,
            )
            yield Path(copy)


def failing_test(checkout: Path) -> str:
    """The first test of ``make test`` that fails there; empty if none does."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider"),
            *("-n", "auto", "--dist", "loadfile", "-m", "not slow", "tests"),
            "--ignore=tests/tools",
        ],
        cwd=checkout,
        env=environment(str(checkout)),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return ""
    named = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return named[0].split(" - ")[0] if named else f"exit status {done.returncode}"


def main() -> int:
    """Print a line for each mutant; 0 if tests catch all of them, else 1."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "numbers", metavar="NUMBER", nargs="*", type=int, help="of a mutant (default: all)"
    )
    chosen = parser.parse_args().numbers or range(1, len(MUTANTS) + 1)
    missed = 0
    for number, checkout in zip(chosen, copies(Path(CHECKOUT)), strict=False):
        mutant = MUTANTS[number - 1]
        mutant.apply(checkout)
        found = failing_test(checkout)
        missed += not found
        print(f"{number:2}  {mutant.harm}: {found or 'NOT CAUGHT'}", flush=True)
    print(f"{missed} not caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
