"""The part ``published``, small, and planted defects that it must find."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from torture.framework.python_child import ROOT

pytestmark = pytest.mark.slow  # `make test` tests the store, not its testers

SCRIPT: Final = """
import json, sys
from pathlib import Path
from torture.framework.part import Scale, Settings
from torture.published import part
replay = "0"
part.STORMS, part.STEPS = 1, 4
{planted}
outcome = part.PART.run(Settings(Scale.CI, 150.0, 1, Path(sys.argv[1]), replay))
print(json.dumps([[failure.what for failure in outcome.failures], outcome.counts]))
"""
_LIMIT_S: Final = 200.0


def run(directory: Path, planted: str = "") -> tuple[list[str], dict[str, int]]:
    """Failures and counts of a short round, in a process whose children have the defect, too."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(planted=planted), str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    failures, counts = json.loads(done.stdout)
    return failures, counts


def test_a_round_finds_nothing(tmp_path: Path) -> None:
    failures, counts = run(tmp_path)
    assert failures == []
    assert counts["rounds"] == 1
    assert counts["calm"] == 3


PUBLISHES_NOTHING: Final = """
from lsmkv.remote import publish
publish._create = lambda bucket, number, data: None
"""

CONFUSES_TABLES: Final = """
from lsmkv.remote.object_file import ObjectFile
really = ObjectFile.__init__
def one_name(self, *arguments):
    really(self, *arguments)
    self._cached_name = "a table"
ObjectFile.__init__ = one_name
"""

KEEPS_WHAT_IT_HAS_NOT_CHECKED: Final = """
replay = None
part.ROUNDS[Scale.CI], part.STORMS, part.STEPS = 10, 3, 6  # it is found when a fault meets a lookup
from lsmkv.remote.object_file import ObjectFile
really = ObjectFile._read
def kept(self, offset, length, is_single):
    data = really(self, offset, length, is_single)
    self.keep(offset, data)
    return data
ObjectFile._read = kept
"""

SHOWS_THE_OLDER: Final = """
from lsmkv.remote.published import PublishedStore
really = PublishedStore._opened
def stays(self, number):
    before = self._open
    current, last_seq = really(self, number)
    if before is not None:
        current = before[0]
        self._open = current, self._open[1]
    return current, last_seq
PublishedStore._opened = stays
"""


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (PUBLISHES_NOTHING, "although no request does: NotAStoreError"),
        (CONFUSES_TABLES, "although no request does: CorruptionError"),
        (SHOWS_THE_OLDER, "keys have a wrong value"),
        (KEEPS_WHAT_IT_HAS_NOT_CHECKED, "although no request does: CorruptionError"),
    ],
    ids=["publishes nothing", "confuses tables", "shows the older", "keeps the unchecked"],
)
def test_a_planted_defect_is_found(tmp_path: Path, planted: str, said: str) -> None:
    (failure,), _ = run(tmp_path, planted)
    assert said in failure
