"""Operations cost no more than recorded: instructions, calls, blocks and bytes.

No clock is used, so a busy machine does not matter.  ``golden/costs.json`` has the recorded costs.
After an intended change ``pytest tests/tools/test_cost.py --rewrite-golden`` writes it anew, and the
difference is reviewed.  Compiled builds are checked by the store's own counters alone, because the
interpreter does not see the instructions of compiled functions.
"""

from __future__ import annotations

import json
import platform
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pytest

import tools.instructions
from bench.workloads.operations import COUNTED
from costs import COMPILED, Cost, measure

RECORDED: Final = Path(__file__).parents[1] / "golden" / "costs.json"
PYTHON: Final = ".".join(platform.python_version_tuple()[:2])
HINT: Final = "if that is meant: pytest tests/tools/test_cost.py --rewrite-golden"

MARGIN: Final = 1.02
"""What may be dearer than recorded.  Counts repeat within 0.2 %; one more call for each get is 3 %."""

OTHER_PYTHON_MARGIN: Final = 1.15
"""The same for calls, where another version of Python was recorded: comprehensions, which are calls
before 3.12, make up to 11 % of them.  Instructions of two versions cannot be compared at all."""

IMPROVEMENT: Final = 0.90
"""What was recorded is out of date below this, and would let a later loss pass."""

interpreted_only = pytest.mark.skipif(
    COMPILED, reason="this build is compiled: its counters alone are checked"
)

needs_valgrind = pytest.mark.skipif(
    shutil.which("valgrind") is None, reason="there is no valgrind here"
)


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of operation: its present cost, and that recorded for a Python version."""

    name: str
    now: Cost
    then: Cost
    python: str


@pytest.fixture(scope="module", params=COUNTED)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    name = str(request.param)
    now = measure(name, str(tmp_path_factory.mktemp("costs") / "store"))
    document: dict[str, Any] = json.loads(RECORDED.read_text("ascii")) if RECORDED.exists() else {}
    if request.config.getoption("--rewrite-golden"):
        if COMPILED:
            pytest.skip("costs are recorded from the interpreted build")
        document[name] = {"python": PYTHON, **asdict(now)}
        RECORDED.write_text(json.dumps(document, indent=1) + "\n", "ascii")
    if name not in document:
        pytest.fail(f"{RECORDED} has no {name}: run pytest --rewrite-golden, and review the file")
    record = dict(document[name])
    python = record.pop("python")
    return Case(name, now, Cost(**record), python)


def compare(case: Case, what: str, now: int, then: int, margin: float) -> None:
    """Fail if the cost is too high, or much below the record.

    A lower cost must be recorded, so that it stays low.
    """
    operations = COUNTED[case.name].operations
    change = f"{case.name}: {now / operations:.2f} {what} each, recorded {then / operations:.2f}"
    assert now <= then * margin, f"{change}: dearer; {HINT}"
    if case.python == PYTHON:
        assert now >= then * IMPROVEMENT, f"{change}: cheaper, so that it stays so; {HINT}"


def test_counters_are_as_recorded_in_every_build(case: Case) -> None:
    assert case.now.counters == case.then.counters, f"{case.name}; {HINT}"


@interpreted_only
def test_no_more_calls_in_the_interpreted_build(case: Case) -> None:
    margin = MARGIN if case.python == PYTHON else OTHER_PYTHON_MARGIN
    compare(case, "calls", case.now.calls, case.then.calls, margin)


@interpreted_only
def test_no_more_instructions_in_the_interpreted_build(case: Case) -> None:
    if case.python != PYTHON:
        pytest.skip(f"recorded under Python {case.python}, whose bytecode is another")
    compare(case, "instructions", case.now.instructions, case.then.instructions, MARGIN)


# Instructions of the machine: tools/instructions.py


def run_tool(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["instructions", *arguments])
    return tools.instructions.main()


@pytest.mark.slow
@needs_valgrind
def test_the_tool_counts_the_instructions_of_one_kind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_tool(monkeypatch, "get-hit") == 0
    name, count = capsys.readouterr().out.splitlines()[1].split()
    assert name == "get-hit"
    assert int(count.replace(",", "")) > 1000
