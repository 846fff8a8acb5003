"""A feature store: workers of a data loader read the rows of their batches by key.

A read-only handle can be pickled: the dataset goes to the workers as it is, and each opens the store at
its first use.  (PyTorch's ``DataLoader`` with ``num_workers=2`` does the same with this dataset.)
"""

from __future__ import annotations

import array
import multiprocessing
import random
import tempfile

import lsmkv

USERS, FEATURES, BATCH = 20_000, 32, 256


class Features:
    """The features of users by their number, as a dataset of a data loader."""

    def __init__(self, db: lsmkv.DB) -> None:
        self.db = db

    def __getitems__(self, users: list[int]) -> list[array.array[float]]:
        """A batch: one call, which asks the filters and blocks of all keys together."""
        found = self.db.multi_get([user.to_bytes(4, "big") for user in users])
        return [array.array("f", row or bytes(4 * FEATURES)) for row in found]


def row_of(user: int) -> array.array[float]:
    return array.array("f", [float(user), *[0.5] * (FEATURES - 1)])


def main() -> None:
    rows = ((user.to_bytes(4, "big"), row_of(user).tobytes()) for user in range(USERS))
    users = random.Random(1).sample(range(USERS), USERS // 2)  # an epoch, shuffled
    batches = [users[at : at + BATCH] for at in range(0, len(users), BATCH)]
    with tempfile.TemporaryDirectory() as path:
        with lsmkv.open(path) as db:
            db.bulk_load(rows, sorted=True)
        with lsmkv.open(path, read_only=True) as db:
            processes = multiprocessing.get_context("spawn")
            with processes.Pool(2) as workers:
                loaded = workers.map(Features(db).__getitems__, batches, chunksize=10)
    found = [row for batch in loaded for row in batch]
    right = sum([row == row_of(user) for user, row in zip(users, found, strict=True)])
    print(f"{len(batches)} batches by 2 workers, {right:,} of {len(users):,} rows right")


if __name__ == "__main__":
    main()
