"""Published sections, measured again: what agrees, what differs, and what fails."""

from __future__ import annotations

import shutil
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from bench import __main__ as bench
from bench.experiments.reproduce.agreement import compare
from bench.experiments.reproduce.command import main, measure_again
from bench.experiments.reproduce.published import Section, results, sections

COMMAND = "python -m bench wasted-reads --bits 10 --entries 1000 --shapes hex --value-bytes 100"
PAGE = """# A page

<!-- bench wasted-reads -->

Command:
`{command} --out ../out --into docs/page.md`. Seed 1970.

{tables}
<!-- end -->

After it.
"""
TABLE = """**Reads**

| store, filters | bits | block reads | cold us | spread us |
|---|---:|---:|---:|---:|
| lsmkv, bloom | 10 | 8,633 | 1.50 | 2.0 (1.5-2.5) |
| leveldb, bloom | 11 | 11,815 | 3.00 | 4.0 (3.5-4.5) |
"""


CLOCKS = {"Reads": ["cold us", "spread us"]}


def section(folder: Path, tables: str, command: str = COMMAND) -> Section:
    folder.mkdir(exist_ok=True)
    document = folder / "page.md"
    document.write_text(PAGE.format(command=command, tables=tables))
    (found,) = sections([document], CLOCKS)
    return found


def verdicts(folder: Path, changed: str) -> dict[str, str]:
    """The verdicts other than same, by place."""
    cells = compare(section(folder / "published", TABLE), section(folder / "here", changed))
    return {cell.place: cell.verdict for cell in cells if cell.verdict != "same"}


def test_a_section_has_its_command_without_the_places_of_files(tmp_path: Path) -> None:
    found = section(tmp_path, TABLE)
    assert (found.name, found.command) == ("wasted-reads", tuple(COMMAND.split()[4:]))


def test_another_program_s_section_has_no_command(tmp_path: Path) -> None:
    found = section(tmp_path, TABLE, "python -m torture --time-limit 45")
    assert found.command is None
    assert "not run" in measure_again(found, tmp_path / "out", None).failure


@pytest.mark.parametrize(
    ("published", "here", "place", "verdict"),
    [
        ("8,633", "8,634", "Reads: lsmkv, bloom, block reads", "differs"),
        ("1.50", "2.90", "Reads: lsmkv, bloom, cold us", "within"),  # twice as long, and no more
        ("1.50", "3.10", "Reads: lsmkv, bloom, cold us", "outside"),
        ("2.0 (1.5-2.5)", "3.0 (2.4-4)", "Reads: lsmkv, bloom, spread us", "within"),
        ("2.0 (1.5-2.5)", "2.7 (2.6-2.8)", "Reads: lsmkv, bloom, spread us", "outside"),
        (TABLE.splitlines(True)[-1], "", "Reads: leveldb, bloom", "differs"),
        ("block reads", "reads", "Reads", "differs"),
    ],
)
def test_what_is_not_the_same_has_a_verdict(
    tmp_path: Path, published: str, here: str, place: str, verdict: str
) -> None:
    assert verdicts(tmp_path, TABLE.replace(published, here)) == {place: verdict}


@pytest.mark.slow
def test_a_command_that_fails_is_reported_with_its_last_line(tmp_path: Path) -> None:
    found = section(tmp_path / "docs", TABLE, f"{COMMAND} --bits none")
    failure = measure_again(found, tmp_path / "out", None).failure
    assert failure.startswith("exit status 2: ") and "--bits" in failure


@pytest.mark.slow
def test_what_another_run_wrote_comes_out_again_and_what_nobody_measured_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published = section(tmp_path / "docs", TABLE)
    (tmp_path / "docs" / "pictures").mkdir()
    with pytest.raises(SystemExit, match=r"not reproduced: wasted-reads in page\.md"):
        main(["--documents", str(published.document), "--out", str(tmp_path)])
    written = (tmp_path / "reproduced.md").read_text()
    assert "| wasted-reads in page.md | counts differ |" in written
    assert "Reads: published a table, here nothing" in written
    assert "wasted-reads in page.md ..." in capsys.readouterr().out
    made = tmp_path / "page-wasted-reads" / "docs"
    shutil.copytree(made, tmp_path / "docs", dirs_exist_ok=True)
    (again,) = sections([tmp_path / "docs" / "page.md"])
    outcome = measure_again(again, tmp_path / "again", None)
    # The growth of a process is no count.
    grown = [cell for cell in outcome.cells if cell.place.endswith("grew KiB")]
    assert outcome.agrees and outcome.count("same") >= len(outcome.cells) - len(grown) > 20
    assert outcome.pictures == (1, 1)


@pytest.mark.slow
def test_results_of_another_machine_come_out_again_and_changed_counts_do_not(
    tmp_path: Path,
) -> None:
    there = tmp_path / "there"
    with (tmp_path / "said").open("w") as said, redirect_stdout(said):
        bench.main([*COMMAND.split()[3:], "--out", str(there)])
    first = measure_again(results(there / "wasted-reads.json"), tmp_path / "here", None)
    assert first.agrees and first.count("same") > 20
    table = there / "wasted-reads.csv"
    header, row, *others = table.read_text().splitlines()
    at = header.split(",").index("lookups") + 1  # the first count
    cells = row.split(",")
    cells[at] += "1"
    table.write_text("\n".join([header, ",".join(cells), *others]))
    changed = results(there / "wasted-reads.json")
    again = compare(
        changed, results(tmp_path / "here" / "wasted-reads-wasted-reads" / "wasted-reads.json")
    )
    assert [cell.verdict for cell in again].count("differs") == 1


def test_an_unknown_section_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    found = section(tmp_path, TABLE)
    with pytest.raises(SystemExit, match="no section ycsb: must be of wasted-reads"):
        main(["--documents", str(found.document), "--out", str(tmp_path), "--sections", "ycsb"])


def test_every_section_of_the_documents_can_be_compared() -> None:
    docs = Path(__file__).parents[2] / "docs"
    for found in sections(sorted(docs.glob("*.md"))):
        if found.name not in ("torture", "reproduce"):
            assert found.command is not None, found
            assert found.tables, found
            titles = [table.title for table in found.tables]
            assert len(set(titles)) == len(titles), found
            assert not [cell for cell in compare(found, found) if cell.verdict != "same"]
