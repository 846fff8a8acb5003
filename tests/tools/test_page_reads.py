"""``tools.page_reads``: one look-up reads one page, by the operating system's count."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

import lsmkv
from bench.harness import page_cache
from tools.page_reads import PageReads, count, drawn

# The fast tests have their files in memory, where nothing is read from a device.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        page_cache.why_not_dropped(tempfile.gettempdir()) is not None,
        reason="files in the temporary directory stay in memory",
    ),
]

PAGE_BYTES = 4096
MIB = 1 << 20


def counted(directory: Path, kind: str, fit_pages: bool = True) -> PageReads:
    options = lsmkv.Options(fit_pages=fit_pages, background="thread")
    try:
        return count(str(directory / "store"), drawn(kind, MIB), 300, options)
    except OSError as error:
        pytest.skip(f"no direct reads here: {error}")


@pytest.mark.parametrize("kind", ["100, by half", "400, text", "100, random", "400, random"])
def test_a_cold_lookup_reads_one_block_which_is_one_page(tmp_path: Path, kind: str) -> None:
    found = counted(tmp_path, kind)
    assert found.blocks_read == 1
    assert PAGE_BYTES <= found.bytes_read <= 1.125 * PAGE_BYTES
    assert found.index_bytes > 0 and found.filter_bytes > 0


def test_without_fit_pages_most_lookups_read_two(tmp_path: Path) -> None:
    found = counted(tmp_path, "100, random", fit_pages=False)
    assert found.blocks_read == 1
    assert found.bytes_read > 1.8 * PAGE_BYTES
