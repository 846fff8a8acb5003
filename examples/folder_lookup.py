"""Which folder holds this file?

A filter for each folder spares reading most of them.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from lsmkv.filters import BloomFilter

FOLDERS = 40
FILES_EACH = 25


def main() -> None:
    draw = random.Random(6)
    with tempfile.TemporaryDirectory() as root:
        for folder in range(FOLDERS):
            path = Path(root, f"folder{folder:02}")
            path.mkdir()
            for _ in range(FILES_EACH):
                (path / f"{draw.randrange(1_000_000):06}.txt").touch()

        filters: dict[Path, BloomFilter] = {}
        for path in sorted(Path(root).iterdir()):
            names = [entry.name.encode() for entry in path.iterdir()]
            filters[path] = BloomFilter.for_keys(len(names), 0.01)
            filters[path].update(names)

        reads = found = 0
        wanted = [path.name for path in sorted(Path(root).glob("*/*.txt"))[::10]]
        wanted += [f"absent {number}.txt" for number in range(100)]
        for name in wanted:
            for path, filter in filters.items():
                if filter.may_contain(name.encode()):
                    reads += 1
                    found += name in {entry.name for entry in path.iterdir()}
    print(f"{found} found of {len(wanted)} looked up")
    print(f"folders read: {reads:,} instead of {len(wanted) * FOLDERS:,}")


if __name__ == "__main__":
    main()
