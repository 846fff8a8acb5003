"""The names of ``lsmkv.filters``: a store loads its own, others load on use."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gates import WAIT_S
from lsmkv import filters
from lsmkv.filters import family

STARRED = (
    "from lsmkv.filters import *; print(BloomFilter(1, 1), Membership.__name__, bits_for(1, 0.5))"
)


NAMES: set[str] = set(filters.__all__)  # type: ignore[attr-defined]


def output_of(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        check=True,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    ).stdout


def test_a_store_does_not_load_the_family() -> None:
    code = "import sys, lsmkv; lsmkv.open; from lsmkv.filters import policy; print(*sys.modules)"
    loaded = output_of(code).split()
    assert "lsmkv.filters.policy" in loaded
    assert [name for name in loaded if name.startswith("lsmkv.filters.family")] == []


def test_names_of_the_family_are_names_of_the_package() -> None:
    assert {"BloomFilter", "Membership", "load", "Window"} <= NAMES
    for name in NAMES:
        value = getattr(filters, name)
        assert value is getattr(family, name, value)
    assert set(dir(filters)) >= NAMES
    assert not {"annotations", "importlib", "family", "bloom", "saved"} & NAMES


def test_all_names_can_be_imported_at_once() -> None:
    assert output_of(STARRED) == "BloomFilter(byte_count=1, probe_count=1) Membership 2\n"


@pytest.mark.parametrize("name", ["BlomFilter", "_bits_for", "__nothing__"])
def test_other_names_are_attribute_errors(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"module 'lsmkv\.filters' has no attribute '{name}'"):
        getattr(filters, name)
