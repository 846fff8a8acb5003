from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from lsmkv.encoding.entries import (
    MAX_KEY_BYTES,
    MAX_SEQUENCE,
    TAG_EXPIRING,
    TAG_RANGE_DELETE,
    TAGS_RESERVED,
)
from lsmkv.encoding.expiry import EXPIRY_BYTES
from lsmkv.errors import CorruptionError
from lsmkv.log.batch import Operation, decode_batch, set_sequence, write_single
from torture.fuzz.encoded import encode_batch

keys = st.binary(max_size=6)
operation_lists = st.lists(st.tuples(keys, st.none() | st.binary(max_size=9)), max_size=8)
SAMPLE: list[Operation] = [(b"key", b"value"), (b"", None), (b"k" * 300, b""), (b"z", b"\0" * 70)]


@given(st.integers(1, MAX_SEQUENCE - 8), operation_lists)
def test_a_batch_comes_back_as_it_was_encoded(seq: int, operations: list[Operation]) -> None:
    assert decode_batch(encode_batch(seq, operations), "log", 0) == (seq, [], operations)


@given(st.integers(1, MAX_SEQUENCE - 8), keys, st.none() | st.binary(max_size=9))
def test_one_operation_is_encoded_as_a_batch_of_one(
    seq: int, key: bytes, value: bytes | None
) -> None:
    out = BytesWriter()
    write_single(out, seq, key, value)
    assert out.getvalue() == encode_batch(seq, [(key, value)])


@given(st.integers(0, MAX_SEQUENCE), operation_lists, st.binary(max_size=9))
def test_a_sequence_number_can_be_given_later(
    seq: int, operations: list[Operation], before: bytes
) -> None:
    out = BytesWriter()
    out.write(before + encode_batch(0, operations))
    set_sequence(out, len(before), seq)
    assert out.getvalue() == before + encode_batch(seq, operations)


def test_lengths_use_all_of_their_bits() -> None:
    operations: list[Operation] = [(b"k" * MAX_KEY_BYTES, b"v" * 70_000), (b"k" * 0x8000, None)]
    assert decode_batch(encode_batch(1, operations), "log", 0) == (1, [], operations)


def test_every_truncation_is_noticed() -> None:
    data = encode_batch(7, SAMPLE)
    for length in range(len(data)):
        with pytest.raises(CorruptionError):
            decode_batch(data[:length], "000001.log", 99)


def test_trailing_bytes_are_noticed() -> None:
    with pytest.raises(CorruptionError, match="longer than its operations"):
        decode_batch(encode_batch(7, SAMPLE) + b"\0", "log", 0)


def test_the_error_names_file_and_offset() -> None:
    with pytest.raises(CorruptionError) as caught:
        decode_batch(b"", "000001.log", 99)
    assert (caught.value.path, caught.value.offset) == ("000001.log", 99)


@pytest.mark.parametrize("seq", [0, MAX_SEQUENCE, (1 << 64) - 1])
def test_a_sequence_number_out_of_range_is_noticed(seq: int) -> None:
    with pytest.raises(CorruptionError, match="out of range"):
        decode_batch(encode_batch(seq, SAMPLE), "log", 0)


@pytest.mark.parametrize("tag", [*TAGS_RESERVED.keys() - {TAG_RANGE_DELETE}, 200])
def test_unknown_and_reserved_tags_are_refused(tag: int) -> None:
    data = struct.pack("<QIBHI", 1, 1, tag, 1, 1) + b"kv"
    with pytest.raises(CorruptionError, match=f"tag {tag} "):
        decode_batch(data, "log", 0)


def test_a_deletion_with_a_value_is_refused() -> None:
    with pytest.raises(CorruptionError, match="tag 0"):
        decode_batch(struct.pack("<QIBHI", 1, 1, 0, 1, 1) + b"kv", "log", 0)


@pytest.mark.parametrize("length", range(EXPIRY_BYTES))
def test_an_expiry_that_is_cut_short_is_refused(length: int) -> None:
    data = struct.pack("<QIBHI", 1, 1, TAG_EXPIRING, 1, length) + b"k" + bytes(length)
    with pytest.raises(CorruptionError, match="operation 0 has no room for its expiry") as caught:
        decode_batch(data, "000001.log", 99)
    assert (caught.value.path, caught.value.offset) == ("000001.log", 99)


def test_a_count_that_promises_too_much_takes_no_memory() -> None:
    with pytest.raises(CorruptionError, match="ends inside operation 1"):
        decode_batch(struct.pack("<QIBHI", 1, (1 << 32) - 1, 1, 0, 0), "log", 0)
