"""Fuzz targets: logs, manifests, CURRENT, batches, filters, and input of the command line."""

from __future__ import annotations

import io
import struct
from functools import cache
from typing import Any, Final

import click
import msgspec

from lsmkv.cli.keys import Form, parse
from lsmkv.cli.parameters import settings_option
from lsmkv.cli.records import FORMATS, RecordWriter, read_records
from lsmkv.copies.record import LogRecord, Record, TableRecord, decode_records, encode_records
from lsmkv.encoding.expiry import Expiring
from lsmkv.filters import (
    BinaryFuseFilter,
    BlockedBloomFilter,
    BloomFilter,
    CountingBloomFilter,
    CuckooFilter,
    FingerprintFilter,
    FoldableBloomFilter,
    PartitionedBloomFilter,
    RibbonFilter,
)
from lsmkv.filters.family.saved import KINDS, SavedFilter, load
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.keys import filter_key_from_spec
from lsmkv.filters.policy import POLICIES
from lsmkv.log.batch import decode_batch
from lsmkv.log.reader import read_log
from lsmkv.sstable.format import TableExpiry, TableMeta
from lsmkv.storage.file_names import CURRENT, manifest_path
from lsmkv.tree.levels import PlacedTable
from lsmkv.tree.manifest import EMPTY_STATE, VersionEdit, read_current, read_state
from torture.framework.part import expect
from torture.fuzz import sealing
from torture.fuzz.encoded import encode_batch
from torture.fuzz.memory_files import ReadOnlyMemoryStorage
from torture.fuzz.target import Target

PATH: Final = "fuzzed"
_KEYS: Final = [b"key%03d" % number for number in range(40)]

# Logs and manifests


def _check_log(data: bytes) -> None:
    contents = read_log(ReadOnlyMemoryStorage({PATH: data}), PATH, sealing.NUMBER, "log")
    if contents is None:
        return
    rest = data[contents.end + contents.torn_bytes :]
    expect(rest == bytes(len(rest)), "bytes of the log are no record, torn end or free space")
    records = list(contents.records())
    for offset, payload in records:
        expect(data[offset + 9 : offset + 9 + len(payload)] == payload, "the payload differs")
    cut = read_log(ReadOnlyMemoryStorage({PATH: data[: contents.end]}), PATH, sealing.NUMBER, "log")
    expect(cut is not None and list(cut.records()) == records, "the log without torn end differs")


def _log_seeds() -> list[bytes]:
    batches = [encode_batch(n + 1, [(b"key%d" % n, b"value" * n)]) for n in range(5)]
    marked = bytearray(sealing.log_of([*batches, struct.pack("<Q", 100)]))
    marked[-9] = 1  # the last record is a sync mark
    return [sealing.log_of(batches), sealing.seal_log(bytes(marked)), sealing.log_of([])]


def _check_batch(data: bytes) -> None:
    seq, ranges, operations = decode_batch(data, PATH, 0)
    expect(encode_batch(seq, operations, ranges) == data, "it encodes to other bytes")


def _batch_seeds() -> list[bytes]:
    return [
        encode_batch(1, [(b"key", b"value"), (b"", None), (b"x" * 300, b"")]),
        encode_batch(1 << 40, [(b"k%d" % n, b"v") for n in range(20)]),
        encode_batch(7, []),
        encode_batch(9, [(b"key", b"value")], [(b"a", b"b"), (b"", None)]),
        encode_batch(9, [(b"key", Expiring(b"value", 5_000_000_000)), (b"", Expiring(b"", 1))]),
    ]


def _check_manifest(data: bytes) -> None:
    """Each line is a record of a manifest."""
    path = manifest_path(PATH, sealing.NUMBER)
    storage = ReadOnlyMemoryStorage({path: sealing.log_of(data.split(b"\n"), kind=1)})
    state = read_state(storage, PATH, sealing.NUMBER)
    record = msgspec.json.encode(state.as_edit())
    again = EMPTY_STATE.changed(msgspec.json.decode(record, type=VersionEdit))
    expect(again == state, "the state differs after writing and reading it")


@cache
def _manifest_seeds_once() -> tuple[bytes, ...]:
    def placed(number: int, level: int, low: bytes, high: bytes) -> PlacedTable:
        meta = TableMeta(
            number=number, size_bytes=900, smallest=low, largest=high, smallest_seq=1,
            largest_seq=40, entry_count=30, tombstone_count=2, checksum=1 << 63,
            expiry=TableExpiry(20, 5, 7, 1 << 33),
        )  # fmt: skip
        return PlacedTable(level, 1, meta)

    first = VersionEdit(
        added=[placed(3, 1, b"a", b"f")],
        next_file=9,
        last_seq=40,
        log_number=1,
        store_id="0123456789abcdef" * 2,
    )
    more = VersionEdit(added=[placed(4, 1, b"g", b"k"), placed(5, 0, b"a", b"z")], removed=[3])
    last = VersionEdit(closed_log=(8, 900), closed_salt=(1 << 64) - 1, log_number=8, last_seq=99)
    lines = [msgspec.json.encode(edit) for edit in (first, more, last)]
    return (
        b"\n".join(lines),
        lines[0],
        b'{"next_file":2,"log_number":1,"store_id":"%s"}' % (b"f" * 32),
    )


def _check_current(data: bytes) -> None:
    number = read_current(ReadOnlyMemoryStorage({f"{PATH}/{CURRENT}": data}), PATH)
    expect(0 <= number < 10**18, "the number is out of range for a manifest")
    name = manifest_path("", number).encode()
    expect(sealing.seal_current(name) == data, "it encodes to other bytes")


def _current_seeds() -> list[bytes]:
    return [sealing.seal_current(name) for name in (b"MANIFEST-000007", b"MANIFEST-1234567890")]


# Backups


def _check_backup(data: bytes) -> None:
    records = decode_records(data, PATH)
    expect(decode_records(encode_records(records), PATH) == records, "it encodes to others")


def _backup_seeds() -> list[bytes]:
    table = TableRecord(7, 4096, 1 << 63, "ab" * 16, (2049, 12, 1_700_000_000_000_000_000))
    record = Record(
        source="/store",
        next_file=9,
        last_seq=80,
        source_id="ab" * 16,
        source_logs=[LogRecord(8, 1 << 60)],
        tables=[table, msgspec.structs.replace(table, number=1_048_585, original=None)],
    )
    return [encode_records([]), encode_records([record, record])]


# Filters


def _check_saved(data: bytes) -> None:
    filter_ = load(data, PATH)
    expect(filter_.to_bytes() == data, "it saves to other bytes")
    for key in _KEYS[:3]:
        filter_.may_contain(key)
    repr(filter_)


def _saved_seeds() -> list[bytes]:
    empty: list[Any] = [
        BloomFilter.for_keys(40, 0.05),
        BlockedBloomFilter.for_keys(40, 0.05),
        CountingBloomFilter.for_keys(40, 0.05),
        FoldableBloomFilter.for_keys(40, 0.05, 2),
        PartitionedBloomFilter.for_keys(40, 0.05),
        CuckooFilter.for_keys(40, 0.05),
    ]
    for filter_ in empty:
        for key in _KEYS:
            filter_.add(key)
    hashes = [hash_key(key) for key in _KEYS]
    made: list[SavedFilter] = [
        BinaryFuseFilter(hashes, 8),
        FingerprintFilter(hashes, 10),
        RibbonFilter(hashes, 7),
    ]
    return [filter_.to_bytes() for filter_ in (*empty, *made)] + _other_saved()


def _other_saved() -> list[bytes]:
    """One input of each kind with other arguments, for mutations to fill."""
    return [
        sealing.seal_saved_filter(
            struct.pack("<8sHHHH", b"", 1, kind, count, 0)
            + struct.pack(f"<{count}Q", *([8] * count))
            + bytes(16)
        )
        for kind in KINDS
        for count in (1, 2, 3)
    ]


def _check_policy(data: bytes) -> None:
    """Policy, parameter and bits; the answer must not depend on the offset of the bits."""
    if len(data) < 2:
        return
    policy = POLICIES[data[0] % len(POLICIES)]
    parameter, bits = data[1], data[2:]
    if not policy.is_possible(len(bits), parameter):
        return
    for h in (0, 1, (1 << 63) - 1, 0x1234_5678_9ABC_DEF0):
        alone = policy.may_contain(bits, 0, len(bits), parameter, h)
        within = policy.may_contain(b"\xff" * 5 + bits, 5, len(bits), parameter, h)
        expect(alone == within, "the answer depends on the offset of the bits")


def _policy_seeds() -> list[bytes]:
    seeds = []
    hashes = [n * 0x1E37_79B9_7F4A_7C15 & (1 << 63) - 1 for n in range(1, 60)]
    for number, policy in enumerate(POLICIES):
        for rate in (0.01, 0.0001):
            bits, parameter = policy.build(hashes, rate)
            seeds.append(bytes([number, parameter]) + bits)
    return seeds


def _check_filter_key(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    expect(filter_key_from_spec(text).to_spec() == text, "the text differs")


# The command line


def _check_records(data: bytes) -> None:
    """The first byte chooses format and form; records read are written and read again."""
    if not data:
        return
    file_format = FORMATS[data[0] % len(FORMATS)]
    forms = (Form.TEXT,) if file_format == "jsonl" else (Form.TEXT, Form.HEX, Form.RAW)
    form = forms[data[0] // len(FORMATS) % len(forms)]
    entries = [entry[1:] for entry in read_records(io.BytesIO(data[1:]), file_format, form)]
    stream = io.BytesIO()
    written = Form.TEXT if form is Form.RAW else form
    writer = RecordWriter(stream, file_format, written)
    for key, value, due_s in entries:
        writer.add(key, value, due_s)
    stream.seek(0)
    again = [entry[1:] for entry in read_records(stream, file_format, written)]
    expect(again == entries, "the records differ after writing and reading them")


def _record_seeds() -> list[bytes]:
    return [
        b'\x00{"key":"k","value":"v","expires_at":2e9}\n',
        b"\x01k\tv\texpires_at=2000000000\n",
        b'\x00{"key":"k","value":{"hex":"00ff"}}\n\n{"key":"","value":"\\u00e9"}\n',
        b"\x01key\tvalue\nk\\x00\t\\\\\n",
        b'\x02key,"a ""quoted"" value"\n"a\nb",c\n',
        b"\x0400ff\t\n",
        b"\x0561,62\n",
        b"\x07raw\\\tv\n",
        b"\x08a,b\r\n",
    ]


def _check_key(data: bytes) -> None:
    if data:
        parse(data[1:].decode("utf-8", "surrogateescape"), tuple(Form)[data[0] % len(Form)])


@click.command()
@settings_option()
def _take_settings(settings: dict[str, Any]) -> None:
    expect(isinstance(settings, dict), "the settings are no mapping")


def _check_settings(data: bytes) -> None:
    """Each line is an argument of ``--set``."""
    arguments: list[str] = []
    for line in data.decode("utf-8", "surrogateescape").split("\n")[:8]:
        arguments += ["--set", line]
    _take_settings.main(arguments, standalone_mode=False)


_MANIFEST_WORDS: Final = (
    b'"added":[]',
    b'"removed":[3]',
    b'"closed_log":[1,56]',
    b'"level":31',
    b'"store_id":"%s"' % (b"f" * 32),
    b"18446744073709551616",
    b"-1",
    b"null",
    b"[" * 500,
    b"1e999",
)

TARGETS: Final = (
    Target("log", _check_log, _log_seeds, sealing.seal_log, words=(b"\x08\0\0\0\x01",)),
    Target("batch", _check_batch, _batch_seeds),
    Target(
        "manifest", _check_manifest, lambda: list(_manifest_seeds_once()), words=_MANIFEST_WORDS
    ),
    Target("current", _check_current, _current_seeds, sealing.seal_current, words=(b"../", b"0" * 20)),
    Target("backup", _check_backup, _backup_seeds, sealing.seal_backup, words=(b"[", b"-1", b"9" * 30)),
    Target("saved-filter", _check_saved, _saved_seeds, sealing.seal_saved_filter),
    Target("policy", _check_policy, _policy_seeds),
    Target(
        "filter-key",
        _check_filter_key,
        lambda: [b"whole", b"fixed:8", b"delimited:2f:1"],
        errors=(ValueError,),
        words=(b":", b"9" * 5000, b"fixed:", b"65535", b"\xc2\xb2"),
    ),
    Target(
        "records",
        _check_records,
        _record_seeds,
        errors=(ValueError,),
        words=(b'{"hex":"', b"\\x", b"\\", b'"', b"\r", b"\0", b"[" * 500, b"\xef\xbb\xbf"),
    ),
    Target(
        "keys", _check_key, lambda: [b"\0a\\x41", b"\x0161", b"\2raw"], errors=(ValueError,),
        words=(b"\\x", b"\\"),
    ),
    Target(
        "settings",
        _check_settings,
        lambda: [b"error_rate=0.001\nfilter_key=fixed:4", b"block_size_bytes=0x1000", b"x=y"],
        errors=(click.ClickException,),
        words=(b"error_rate=", b"nan", b"inf", b"1e400", b"9" * 5000, b"direct_reads=true"),
        most_bytes=lambda size: (4 << 20) + 100 * size,
    ),
)  # fmt: skip
