"""What keeps a commit from being released is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.release_check import faults

FILES = {
    "pyproject.toml": '[project]\nversion = "1.2.3"\n',
    "lsmkv/__init__.py": '__version__ = "1.2.3"\n',
    "CITATION.cff": "version: 1.2.3\n",
    "CHANGELOG.md": "## 1.2.3, 2030-01-31\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_release_whose_versions_date_and_tag_agree_has_no_fault(root: Path) -> None:
    assert faults(root, "v1.2.3") == faults(root, None) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lsmkv/__init__.py", '__version__ = "1.2.4"\n'),
        ("CITATION.cff", "version: 1.2\n"),
        ("CHANGELOG.md", "## 1.2.3, unreleased\n"),
    ],
)
def test_a_file_that_disagrees_is_named(root: Path, name: str, text: str) -> None:
    (root / name).write_text(text)
    (fault,) = faults(root, "v1.2.3")
    assert fault.startswith(f"{name}: ")


def test_a_tag_of_another_version_is_named(root: Path) -> None:
    assert faults(root, "1.2.3") == [
        "tag 1.2.3: pyproject.toml has version 1.2.3, so it must be v1.2.3"
    ]
