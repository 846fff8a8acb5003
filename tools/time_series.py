"""Bytes and tables of a time series, with and without expiry.

``python -m tools.time_series``: one flush a minute of readings with ascending keys.  Those of a day
are kept: by expiry; by deleting each reading when it is a day old; or all readings are kept.
"""

from __future__ import annotations

import tempfile
from typing import Final, Literal

import click
from rich import print as show

import lsmkv
from bench.harness.tables import Table

Kept = Literal["expiry", "deletes", "all"]
_MINUTE_S: Final = 60


def written(kept: Kept, minutes: int, readings: int, life: int) -> list[str]:
    """A row: bytes that flushes and compactions wrote, and tables."""
    now = [1_000_000_020.0]
    ttl_s = life * _MINUTE_S if kept == "expiry" else None
    most_tables = 0
    with (
        tempfile.TemporaryDirectory() as path,
        lsmkv.open(path, clock=lambda: now[0], default_ttl_s=ttl_s) as db,
    ):
        for minute in range(minutes):
            with db.write_batch() as batch:
                for number in range(readings):
                    batch.put(b"%08d/%05d" % (minute, number), b"%090d" % (minute * number))
                    if kept == "deletes" and minute >= life:
                        batch.delete(b"%08d/%05d" % (minute - life, number))
            db.flush()
            db.wait_until_settled()
            now[0] += _MINUTE_S
            most_tables = max(most_tables, len(db.tables()))
        stats, left = db.stats(), db.approximate_count()
        counts = [
            stats.flush_bytes,
            stats.compaction_write_bytes,
            most_tables,
            len(db.tables()),
            left,
            db.disk_bytes(),
        ]
        return [kept, *(f"{count:,}" for count in counts)]


@click.command(help=__doc__)
@click.option("--minutes", default=4320, show_default=True)
@click.option("--readings", default=200, show_default=True, help="In a minute.")
@click.option("--life", default=1440, show_default=True, help="Minutes that a reading is kept.")
def main(minutes: int, readings: int, life: int) -> None:
    rows = [written(kept, minutes, readings, life) for kept in ("expiry", "deletes", "all")]
    headings = ["kept by", "flushed", "compacted", "most tables", "tables", "keys", "bytes on disk"]
    show(Table(__doc__.splitlines()[0], headings, rows).to_rich())


if __name__ == "__main__":
    main()
