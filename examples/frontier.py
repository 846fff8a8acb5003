"""A web crawler's frontier: what is to be fetched next, and what was seen already?

Both are in one store.  A batch removes a page from the frontier and adds its links, so a crash loses no
page and fetches none twice.  Keys of the frontier ascend, and the crawler starts each look where the last
one ended: it passes no deleted entry twice.  Most links are new, and filters spare the reads for these.
"""

from __future__ import annotations

import random
import tempfile

import lsmkv

PAGES, LINKS = 1 << 40, 12  # how many there are in this web, and on each page
CRAWLED = 1_500


def links_of(url: bytes) -> list[bytes]:
    """The links of a page: a tenth of them to pages that everybody links to."""
    draw = random.Random(url)
    numbers = (draw.randrange(100 if draw.random() < 0.1 else PAGES) for _ in range(LINKS))
    return [b"https://example.org/%d" % number for number in numbers]


def crawl(db: lsmkv.DB, page_count: int) -> list[bytes]:
    """Fetch some pages, those found first before the others."""
    frontier, seen = db.prefixed(b"frontier/"), db.prefixed(b"seen/")
    fetched, place = list[bytes](), b""
    while len(fetched) < page_count:
        place, url = next(iter(frontier.items(start=place)))
        fetched.append(url)
        depth = int.from_bytes(place[:4], "big") + 1
        with frontier.write_batch() as batch:
            del batch[place]
            for link in {*links_of(url)}:
                if link not in seen:
                    seen.on(batch)[link] = b""
                    batch[depth.to_bytes(4, "big") + link] = link
    return fetched


def main() -> None:
    with tempfile.TemporaryDirectory() as path:
        fetched: list[bytes] = []
        options = lsmkv.Options(write_buffer_size_bytes=128 * 1024)
        with lsmkv.open(path, options) as db:
            db[b"frontier/" + bytes(4)] = b"https://example.org/"
            fetched += crawl(db, CRAWLED // 2)
        with lsmkv.open(path, options) as db:  # it goes on where it was stopped
            fetched += crawl(db, CRAWLED // 2)
            stats, waiting = db.stats(), len(db.prefixed(b"frontier/"))
        print(f"fetched: {len(fetched):,}, twice: {len(fetched) - len({*fetched})}")
        spared, wasted = stats.filter_negatives, stats.filter_false_positives
        print(f"waiting: {waiting:,}; reads saved: {spared:,}, wasted: {wasted:,}")


if __name__ == "__main__":
    main()
