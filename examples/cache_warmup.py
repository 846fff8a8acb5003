"""Cache warm-up: what to load after a restart?

While the service runs, a rolling filter remembers the keys that were used lately.  It is saved on the
way out.  After the restart one scan of the store loads the records whose keys the filter holds; a list
of the keys themselves would take many times the bytes.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import lsmkv
from lsmkv.filters import RollingBloomFilter, Window

RECORDS = 20_000
USED = 2_000  # records that most requests are for
REQUESTS = 5_000


def requests(seed: int) -> list[bytes]:
    """Keys: nine of ten requests are for a few popular records, here and there in the store."""
    draw = random.Random(seed)
    popular = random.Random("popular").sample(range(RECORDS), USED)
    return [
        b"record %05d" % (draw.choice(popular) if draw.random() < 0.9 else draw.randrange(RECORDS))
        for _ in range(REQUESTS)
    ]


def hits(cache: dict[bytes, bytes], db: lsmkv.DB, seed: int) -> int:
    """Requests that the cache answers; what the store answers joins the cache."""
    found = 0
    for key in requests(seed):
        if key in cache:
            found += 1
        else:
            cache[key] = db[key]
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder, "recently-used")
        with lsmkv.open(Path(folder, "store")) as db:
            with db.write_batch() as batch:
                for number in range(RECORDS):
                    batch.put(b"record %05d" % number, b"x" * 100)
            recent = RollingBloomFilter.for_window(Window(inserts=REQUESTS), REQUESTS, 0.01)
            for seed in range(3):  # before the restart
                recent.update(requests(seed))
            saved.write_bytes(recent.to_bytes())

        with lsmkv.open(Path(folder, "store")) as db:
            cold = hits({}, db, 7)
            recent = RollingBloomFilter.from_bytes(saved.read_bytes(), str(saved))
            warm = {key: value for key, value in db.items() if recent.may_contain(key)}
            loaded = len(warm)
            print(f"filter: {saved.stat().st_size:,} bytes; loaded: {loaded:,} of {RECORDS:,}")
            print(
                f"first {REQUESTS:,} requests: {cold:,} hits cold, {hits(warm, db, 7):,} hits warm"
            )


if __name__ == "__main__":
    main()
