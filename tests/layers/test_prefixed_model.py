"""Mappings with prefixes against dicts, over random operations."""

from __future__ import annotations

import tempfile
from typing import Any, Final

from conftest import SMALL
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import lsmkv

PREFIXES: Final = (b"", b"a", b"a\xff", b"a/", b"\xff", b"\xff\xff", b"b")
parts = st.sampled_from(PREFIXES)
keys = st.binary(max_size=2) | st.sampled_from([b"/", b"\xff", b"\xff\xff", b"a", b"\0"])
bounds = st.none() | keys


class PrefixedMachine(RuleBasedStateMachine):
    """One store, changed through many prefixes, beside a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.TemporaryDirectory()
        self.db = lsmkv.open(self.home.name, SMALL)
        self.model: dict[bytes, bytes] = {}

    def part(self, prefix: bytes) -> dict[bytes, bytes]:
        """What a mapping with ``prefix`` should show."""
        size = len(prefix)
        return {k[size:]: v for k, v in sorted(self.model.items()) if k.startswith(prefix)}

    @rule(prefix=parts, key=keys, value=st.binary(max_size=4))
    def put(self, prefix: bytes, key: bytes, value: bytes) -> None:
        self.db.prefixed(prefix)[key] = value
        self.model[prefix + key] = value

    @rule(prefix=parts, key=keys)
    def delete(self, prefix: bytes, key: bytes) -> None:
        self.db.prefixed(prefix).delete(key)
        self.model.pop(prefix + key, None)

    @rule(first=parts, second=parts, key=keys, gone=keys, discard=st.booleans())
    def batch(self, first: bytes, second: bytes, key: bytes, gone: bytes, discard: bool) -> None:
        with self.db.prefixed(first).write_batch() as batch:
            batch[key] = b"batched"
            self.db.prefixed(second).on(batch).delete(gone)
            if discard:
                batch.close()
        if not discard:
            self.model[first + key] = b"batched"
            self.model.pop(second + gone, None)

    @rule(prefix=parts)
    def pop(self, prefix: bytes) -> None:
        expected = next(iter(self.part(prefix).items()), None)
        if expected is None:
            return
        assert self.db.prefixed(prefix).popitem() == expected
        del self.model[prefix + expected[0]]

    @rule(prefix=parts)
    def clear(self, prefix: bytes) -> None:
        self.db.prefixed(prefix).clear()
        for key in self.part(prefix):
            del self.model[prefix + key]

    @rule()
    def flush(self) -> None:
        self.db.flush()

    @rule(outer=parts, inner=parts, start=bounds, stop=bounds, prefix=bounds, reverse=st.booleans())
    def scan(
        self,
        outer: bytes,
        inner: bytes,
        start: bytes | None,
        stop: bytes | None,
        prefix: bytes | None,
        reverse: bool,
    ) -> None:
        view = self.db.prefixed(outer).prefixed(inner)
        expected = [
            item
            for item in self.part(outer + inner).items()
            if (start is None or item[0] >= start)
            and (stop is None or item[0] < stop)
            and item[0].startswith(prefix or b"")
        ]
        wanted: dict[str, Any] = {"start": start, "stop": stop, "prefix": prefix}
        assert list(view.items(**wanted, reverse=reverse)) == expected[:: -1 if reverse else 1]

    @rule(prefix=parts, moves=st.lists(st.tuples(st.integers(0, 5), keys), max_size=12))
    def walk(self, prefix: bytes, moves: list[tuple[int, bytes]]) -> None:
        found = list(self.part(prefix).items())
        at = -1  # no key
        with self.db.prefixed(prefix).cursor() as cursor:
            for number, key in moves:
                name = ("next", "prev", "first", "last", "seek", "seek_for_prev")[number]
                moved = getattr(cursor, name)(*([key] if number > 3 else []))
                if name in ("next", "prev"):
                    at = -1 if at < 0 else at + (1 if name == "next" else -1)
                else:
                    below = sum(known < key for known, _ in found)
                    through = sum(known <= key for known, _ in found)
                    at = (0, len(found) - 1, below, through - 1)[number - 2]
                at = at if 0 <= at < len(found) else -1
                assert moved == cursor.valid == (at >= 0)
                if at >= 0:
                    assert cursor.item == found[at]

    @invariant()
    def mappings_show_what_they_should(self) -> None:
        for prefix in PREFIXES:
            shown, expected = self.db.prefixed(prefix), self.part(prefix)
            assert dict(shown.items()) == expected
            assert len(shown) == len(expected)

    def teardown(self) -> None:
        self.db.close()
        self.home.cleanup()


TestPrefixedMappings = PrefixedMachine.TestCase
TestPrefixedMappings.settings = settings(max_examples=15, stateful_step_count=20)
