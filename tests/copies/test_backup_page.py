"""The code about backups in docs/reliability.md runs, and prints what its comments say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from gates import WAIT_S

PAGE = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text()


def test_its_code_prints_what_it_says(tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert run.returncode == 0, run.stderr
    promised = re.findall(r"print\(.*  # ([^:\n]+:? ?[^\n]*?)$", code, flags=re.MULTILINE)
    shown = [line.partition(": what")[0] for line in promised]
    assert run.stdout.splitlines() == shown
    assert len(shown) == 3
