"""A web crawler's frontier: what is to be fetched next, and what was seen already?

Both are in one store.  A batch removes a page from the frontier and adds its links: a crash loses none.
One between a fetch and its batch fetches the page again: at least once, as exactly once cannot be had.
Each look starts where the last one ended, and so passes no deleted entry twice.
"""

from __future__ import annotations

import random
import tempfile

import lsmkv

SEED = b"https://example.org/"
PAGES, LINKS, CRAWLED = 1 << 40, 12, 1_500  # in this web, on each page, to be fetched
AMONG = [100] + 9 * [PAGES]  # a tenth of the links is to pages that everybody links to


def links_of(url: bytes) -> list[bytes]:
    """The links of a page."""
    draw = random.Random(url)
    return [SEED + b"%d" % draw.randrange(draw.choice(AMONG)) for _ in range(LINKS)]


def crawl(db: lsmkv.DB, page_count: int) -> list[bytes]:
    """Fetch some pages, those found first before the others; fewer when the frontier is empty."""
    frontier, seen = db.prefixed(b"frontier/"), db.prefixed(b"seen/")
    if SEED not in seen:  # at the first start alone
        with db.write_batch() as batch:
            batch[b"seen/" + SEED], batch[b"frontier/" + bytes(4)] = b"", SEED
    fetched, place = list[bytes](), b""
    while len(fetched) < page_count and (first := next(iter(frontier.items(start=place)), None)):
        place, url = first
        fetched.append(url)
        depth = int.from_bytes(place[:4], "big") + 1
        with frontier.write_batch() as batch:
            del batch[place]
            for link in {*links_of(url)}:
                if link not in seen:  # most are new, and filters spare the reads for these
                    seen.on(batch)[link] = b""
                    batch[depth.to_bytes(4, "big") + link] = link
    return fetched


def main() -> None:
    with tempfile.TemporaryDirectory() as path:
        fetched, options = list[bytes](), lsmkv.Options(write_buffer_size_bytes=128 * 1024)
        for _ in range(2):  # the second time it goes on where it was stopped
            with lsmkv.open(path, options) as db:
                fetched += crawl(db, CRAWLED // 2)
                stats, waiting = db.stats(), len(db.prefixed(b"frontier/"))
        print(f"fetched: {len(fetched):,}, twice: {len(fetched) - len({*fetched})}")
        spared, wasted = stats.filter_negatives, stats.filter_false_positives
        print(f"waiting: {waiting:,}; reads saved: {spared:,}, wasted: {wasted:,}")


if __name__ == "__main__":
    main()
