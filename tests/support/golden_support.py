"""Golden files: bytes that later releases must write, or at least read.

A golden file is text, so that its changes can be reviewed.  It has for each file a line ``# <name>
<length>`` and its bytes in hexadecimal.  ``pytest --rewrite-golden`` rewrites them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

Files = dict[str, bytes]

_DIRECTORY: Final = Path(__file__).parents[1] / "golden"
_BYTES_PER_LINE: Final = 48


class Golden:
    """Access to the golden files; with ``rewrite`` they are written anew."""

    def __init__(self, *, rewrite: bool) -> None:
        self.rewrite = rewrite

    def check(self, name: str, files: Files) -> None:
        """Fail unless ``files`` equal the golden file ``name`` byte for byte."""
        stored = self.load(name, lambda: files)
        assert list(stored) == list(files), f"golden {name} holds other files"
        for file, data in files.items():
            assert data.hex(" ", 4) == stored[file].hex(" ", 4), f"{file} of golden {name} differs"

    def load(self, name: str, make: Callable[[], Files] | None = None) -> Files:
        """The contents of the golden file ``name``.

        With ``rewrite`` the result of ``make`` is written to it first.
        """
        path = _DIRECTORY / f"{name}.hex"
        if self.rewrite and make is not None:
            _DIRECTORY.mkdir(exist_ok=True)
            path.write_text(to_text(make()), encoding="ascii")
        if not path.exists():
            pytest.fail(f"{path} is missing: run pytest --rewrite-golden, and review what it wrote")
        return from_text(path.read_text(encoding="ascii"))


def to_text(files: Files) -> str:
    lines = []
    for name, data in files.items():
        lines.append(f"# {name} {len(data)}")
        for start in range(0, len(data), _BYTES_PER_LINE):
            lines.append(data[start : start + _BYTES_PER_LINE].hex())
    return "\n".join(lines) + "\n"


def from_text(text: str) -> Files:
    files: Files = {}
    for part in text.split("# ")[1:]:
        head, _, body = part.partition("\n")
        name, length = head.rsplit(" ", 1)
        files[name] = bytes.fromhex(body)
        assert len(files[name]) == int(length), f"golden file {name} is cut short"
    return files


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="write the golden files in tests/golden anew, from today's code",
    )
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write the results in the texts of tests/*/testdata anew, from today's code",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(rewrite=bool(request.config.getoption("--rewrite-golden", default=False)))
