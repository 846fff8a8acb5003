"""The memory that a process may use: the machine's, or its control group's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lsmkv.storage import memory_limit
from lsmkv.storage.memory_limit import memory_limit_bytes, usable_memory_bytes


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "1048576"}, 1 << 20),
        ("0::/a/b\n", {"a/b/memory.max": "4096", "a/memory.max": "1048576"}, 4096),
        ("4:memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": "8192"}, 8192),
        ("4:memory:/a\n", {"memory/a/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("2:cpu,cpuacct:/a\n", {}, None),
    ],
)
def test_the_smallest_limit_of_the_control_groups_counts(
    groups: str,
    limits: dict[str, str],
    expected: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in limits.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    (tmp_path / "groups").write_text(groups)
    monkeypatch.setattr(memory_limit, "CGROUPS", str(tmp_path))
    assert memory_limit_bytes(str(tmp_path / "groups")) == expected


def test_files_that_cannot_be_read_are_no_limit(tmp_path: Path) -> None:
    assert memory_limit_bytes(str(tmp_path / "nothing")) is None


@pytest.mark.parametrize(("limit", "pages"), [(None, 100), (1 << 40, 100), (8192, 2), (0, 0)])
def test_the_machine_s_memory_is_usable_up_to_the_limit(
    limit: int | None, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_limit, "MEMINFO", "/nowhere")
    monkeypatch.setattr(memory_limit, "memory_limit_bytes", lambda: limit)
    fake = {"SC_PHYS_PAGES": 100, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", fake.__getitem__)
    assert usable_memory_bytes() == pages * 4096


@pytest.mark.parametrize(("limit", "expected"), [(None, 300 * 1024), (8192, 8192)])
def test_what_other_programs_use_is_not_usable(
    limit: int | None, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "MemTotal:  1000 kB\nMemFree:  20 kB\nMemAvailable:  300 kB\n"
    (tmp_path / "meminfo").write_text(lines)
    monkeypatch.setattr(memory_limit, "MEMINFO", str(tmp_path / "meminfo"))
    monkeypatch.setattr(memory_limit, "memory_limit_bytes", lambda: limit)
    assert usable_memory_bytes() == expected


def test_memory_that_is_not_known_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "MEMINFO", "/nowhere")
    monkeypatch.setattr(os, "sysconf_names", {})
    assert usable_memory_bytes() == 0
