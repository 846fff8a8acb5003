"""One disk cache for several stores, of which one may be hostile, and answers that are wrong once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

import lsmkv
from lsmkv.encoding.checked_line import encode_line
from lsmkv.remote.bucket import Bucket
from lsmkv.remote.cache_segment import pack_record, unpack_places
from lsmkv.remote.disk_cache import MIN_CAPACITY_BYTES, DiskCache
from lsmkv.remote.generation import Generation, decode_generation
from published_stores import published, reader

COUNT: Final = 200
FORM: Final = lsmkv.Options(block_size_bytes=512, compression="none", block_cache_size_bytes=0)


def publish(directory: Path, name: str) -> str:
    """A store whose values begin with ``name``; its URL."""
    url = f"file://{directory}/published-{name}"
    with lsmkv.open(directory / name, FORM) as db:
        for number in range(COUNT):
            db[b"key%03d" % number] = b"%s of %03d" % (name.encode(), number)
        db.publish(url)
    return url


def read(url: str, **options: Any) -> set[bytes]:
    with lsmkv.open(url, FORM, read_only=True, **options) as db:
        return {db[b"key%03d" % number].split()[0] for number in range(COUNT)}


def generation_of(url: str) -> tuple[Path, Generation]:
    (path,) = Path(url.removeprefix("file://"), "generations").iterdir()
    return path, decode_generation(path.read_bytes(), str(path), 1)


def take_the_names(of: str, to: str) -> None:
    """Give the objects below ``to`` the names, and so the checksums, of those below ``of``."""
    (trusted,) = generation_of(of)[1].tables
    path, generation = generation_of(to)
    (table,) = generation.tables
    assert trusted.meta.size_bytes == table.meta.size_bytes
    folder = path.parents[1] / "tables"
    (folder / table.name).rename(folder / trusted.name)
    named = msgspec.structs.replace(table, name=trusted.name)
    path.write_bytes(encode_line(msgspec.structs.replace(generation, tables=[named])))


@pytest.mark.parametrize("residency", ["resident", "cached", "off"])
def test_a_hostile_store_with_the_names_of_another_is_not_read_as_it(
    tmp_path: Path, residency: str
) -> None:
    good, evil = publish(tmp_path, "good"), publish(tmp_path, "evil")
    take_the_names(of=good, to=evil)
    options = {"disk_cache_path": str(tmp_path / "cache"), "filter_residency": residency}
    for _ in range(2):
        assert read(evil, **options) == {b"evil"}
        assert read(good, **options) == {b"good"}


def test_a_slash_at_the_end_of_a_url_leads_to_the_same_cache(tmp_path: Path) -> None:
    url = publish(tmp_path, "good")
    read(url, disk_cache_path=str(tmp_path / "cache"))
    with lsmkv.open(f"{url}/", read_only=True, disk_cache_path=str(tmp_path / "cache")) as db:
        assert db[b"key007"] == b"good of 007"
        assert (db.stats().disk_cache_hits, db.stats().disk_cache_misses) == (2, 0)


def identity(url: str) -> str:
    bucket = Bucket(url, FORM, lsmkv.Stats())
    bucket.close()
    return bucket.identity


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("s3://bucket/store", "AWS_ENDPOINT_URL"),
        ("s3://bucket/store", "AWS_ENDPOINT_URL_S3"),
        ("s3://bucket/store", "AWS_ENDPOINT"),
        ("s3://bucket/store", "AWS_REGION"),
        ("s3://bucket/store", "AWS_DEFAULT_REGION"),
        ("az://container/store", "AZURE_STORAGE_ACCOUNT_NAME"),
        ("az://container/store", "AZURE_ENDPOINT"),
        ("gs://bucket/store", "GOOGLE_BASE_URL"),
    ],
)
def test_servers_and_accounts_of_one_url_are_told_apart(
    url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")
    found = set()
    for value in ("http://127.0.0.1:1", "http://127.0.0.1:2"):
        monkeypatch.setenv(name, value)
        found.add(identity(url))
    assert len(found) == 2
    assert identity(f"{url}/below") not in found


def test_other_credentials_lead_to_the_same_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for value in ("one", "another"):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.setenv(name, value)
        found.add(identity("s3://bucket/store"))
    assert len(found) == 1


def test_verify_reads_the_objects_and_not_the_cache(tmp_path: Path) -> None:
    url = publish(tmp_path, "good")
    options: dict[str, Any] = {"disk_cache_path": str(tmp_path / "cache")}
    assert read(url, **options) == {b"good"}
    (table,) = Path(url.removeprefix("file://"), "tables").iterdir()
    damaged = bytearray(table.read_bytes())
    damaged[100] ^= 1
    table.write_bytes(damaged)
    assert read(url, **options) == {b"good"}  # from the cache
    with lsmkv.open(url, FORM, read_only=True, **options) as db:
        assert db.verify().damaged_block_count == 1


# Data that look like parts of a segment

FORGED: Final = b"what a hostile publisher wants others to read"


def tag_of(directory: Path) -> int:
    (path,) = directory.glob("*.places")
    return unpack_places(path.read_bytes())[0]


def guessed(tag: int) -> int:
    return 0


def known(tag: int) -> int:
    return tag


@pytest.mark.parametrize(("tagged", "expected"), [(guessed, None), (known, FORGED)])
def test_data_at_the_place_of_an_older_record_are_no_record(
    tmp_path: Path, tagged: Callable[[int], int], expected: bytes | None
) -> None:
    """A segment may get the number of one that another handle still knows.

    Who knows the tag has read the cache's files.
    """
    cache = DiskCache(tmp_path, MIN_CAPACITY_BYTES)
    cache.put("trusted", 0, bytes(200))
    (path,) = tmp_path.glob("*.segment")
    position = path.stat().st_size
    cache.put("trusted", 4096, bytes(len(FORGED)))
    tag = tag_of(tmp_path)
    path.unlink()
    path.write_bytes(bytes(position) + pack_record(tagged(tag), b"trusted", 4096, FORGED))
    assert cache.get("trusted", 4096, len(FORGED)) == expected
    cache.close()


@pytest.mark.parametrize("residency", ["resident", "cached"])
def test_a_wrong_answer_does_not_stay_in_the_disk_cache(tmp_path: Path, residency: str) -> None:
    """Blocks, filters and the ends of tables are wrong in turn, and then whole again."""
    url = f"file://{tmp_path}/published"
    entries = published(tmp_path / "store", url)
    (generation,) = (tmp_path / "published" / "generations").iterdir()
    found = msgspec.json.decode(generation.read_bytes().splitlines()[0])["tables"][0]
    table = tmp_path / "published" / "tables" / found["name"]
    whole = table.read_bytes()
    filters = found["data_length"] + found["dictionary_length"]
    for start, stop in ((0, filters), (filters, filters + 40), (len(whole) - 400, len(whole))):
        options = {
            "disk_cache_path": str(tmp_path / f"cache{start}"),
            "disk_cache_size_bytes": 1 << 20,
            "filter_residency": residency,
        }
        wrong = bytes(byte ^ 1 for byte in whole[start:stop])
        table.write_bytes(whole[:start] + wrong + whole[stop:])
        failed = 0
        with contextlib.suppress(lsmkv.CorruptionError), reader(url, **options) as db:
            for wanted in entries:
                try:
                    assert db[wanted] == entries[wanted]
                except lsmkv.CorruptionError:
                    failed += 1
            assert failed or db.stats().filter_rebuilds
        table.write_bytes(whole)
        with reader(url, **options) as db:
            assert [db[wanted] for wanted in entries] == list(entries.values())
            assert db.stats().filter_rebuilds == 0
