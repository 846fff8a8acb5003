"""The run with sanitizers names test files that exist."""

from __future__ import annotations

import pytest

from tools import sanitized


@pytest.mark.parametrize("names", [sanitized.SHORT, sanitized.LEFT_OUT])
def test_each_name_matches_a_test_file(names: tuple[str, ...]) -> None:
    for name in names:
        assert sanitized.test_files([name])
