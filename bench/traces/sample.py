"""A made trace in the form of Twitter's, to try ``replay`` with."""

from __future__ import annotations

import csv
import random
from typing import Final

_KINDS: Final = ("set", "delete", "get", "miss")
_WEIGHTS: Final = (30, 4, 33, 33)
_PER_S: Final = 100


def write_sample(path: str, keys: int, requests: int, seed: int) -> None:
    """Write sets, deletes, and twice as many gets, half of them of keys that nobody sets.

    Some keys are popular; values have 20 to 400 bytes, and stay for minutes or a day.
    """
    draw = random.Random(f"a made trace/{seed}")
    names = [f"nz:u:{draw.getrandbits(64):016x}" for _ in range(keys)]
    with open(path, "w", encoding="utf-8", newline="") as file:
        trace = csv.writer(file, lineterminator="\n")
        for number in range(requests):
            name, size_bytes, ttl_s = names[int(keys * draw.random() ** 3)], 0, 0
            (kind,) = draw.choices(_KINDS, _WEIGHTS)
            if kind == "set":
                size_bytes, ttl_s = draw.randrange(20, 400), draw.choice((600, 86400))
            elif kind == "miss":
                kind, name = "get", f"nz:u:{draw.getrandbits(64):016x}"
            trace.writerow((number // _PER_S, name, len(name), size_bytes, 1, kind, ttl_s))
