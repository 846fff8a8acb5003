"""``lsmkv`` stats, inspect, explain, verify, repair, compact, destroy, copies and filter-size."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import lsmkv
from commands import fail, fill_tables, one_line, succeed
from damage import footer_of
from lsmkv.cli.commands import cli
from lsmkv.cli.group import describe
from lsmkv.cli.sizes import filter_size
from lsmkv.filters.policy import RIBBON


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def test_stats_json_has_levels_memory_and_what_opening_read(store: str) -> None:
    shown = json.loads(succeed("stats", fill_tables(store), "--json"))
    assert shown["approximate_count"] == 500
    assert shown["levels"][0]["entries"] == 500
    assert shown["memory"]["filter_bytes"] == shown["levels"][0]["filter_bytes"]
    assert shown["opening"]["filter_read_bytes"] == shown["levels"][0]["filter_bytes"]


def test_inspect_blocks_shows_each_filter(store: str) -> None:
    shown = json.loads(succeed("inspect", fill_tables(store), "--blocks", "--json"))
    blocks = shown["tables"][0]["blocks"]
    assert blocks[0]["first_key"] == "key0000"
    assert sum(block["entry_count"] for block in blocks) == 500
    assert all(0 < block["expected_rate"] < 0.02 for block in blocks)
    assert len(succeed("inspect", store, "--blocks").splitlines()) >= len(blocks)


def test_keys_in_tables_are_not_taken_for_markup(store: str) -> None:
    with lsmkv.open(store) as db:
        db[b"[bold]:snake:"] = b""
        db.flush()
    assert b"[bold]:snake:" in succeed("inspect", store)


@pytest.fixture
def runs(store: str) -> str:
    """A store of four runs of even numbers, whose filters err often; the newest deletes one."""
    form = {"compaction": "tiered", "level0_compaction_trigger": 9, "error_rate": 0.2}
    with lsmkv.open(store, **form) as db:  # type: ignore[arg-type]
        for _ in range(4):
            db.update({b"%06d" % number: b"value" for number in range(0, 2000, 2)})
            db.delete(b"000010")
            db.flush()
    return store


def test_explain_has_a_line_for_each_run_within_80_columns(runs: str) -> None:
    with lsmkv.open(runs, read_only=True) as db:
        saved_all = next(
            key
            for key in (b"%06d" % number for number in range(1, 2000, 2))
            if db.explain(key).filter_negatives == 4
        )
    shown = succeed("explain", runs, saved_all.decode()).decode().splitlines()
    assert max(map(len, shown)) <= 80
    assert [line[:4] for line in shown[2:-1]] == ["- L0"] * 4
    assert shown[-1] == "absent; 0 bytes read; filters saved 4 of 4 reads"


def test_explain_marks_a_wasted_read(runs: str) -> None:
    with lsmkv.open(runs, read_only=True) as db:
        wasted = next(
            key
            for key in (b"%06d" % number for number in range(1, 2000, 2))
            if db.explain(key).false_positives == 4  # the runs have the same keys and filters
        )
    shown = succeed("explain", runs, wasted.decode()).decode()
    lines = re.findall("^! L0/.* filter says maybe: .* read, wasted$", shown, re.MULTILINE)
    assert len(lines) == 4 and max(map(len, lines)) <= 80
    assert shown.startswith("get ") and shown.endswith(" read; filters saved 0 of 4 reads\n")


@pytest.mark.parametrize(("key", "outcome"), [("000012", "found"), ("000010", "deleted")])
def test_explain_marks_the_entry_that_ends_the_lookup(runs: str, key: str, outcome: str) -> None:
    shown = succeed("explain", runs, key).decode().splitlines()
    assert re.fullmatch(rf"\+ L0/.* read, {outcome}", shown[-2])
    assert shown[-1].startswith(outcome) and shown[-1].endswith("; filters saved 0 of 1 read")


def test_explain_says_more_of_filters_when_asked_in_the_same_layout(runs: str) -> None:
    brief = succeed("explain", runs, "000012").decode().splitlines()
    more = succeed("explain", runs, "000012", "--filters").decode().splitlines()
    assert [line for line in more if not line.startswith("    ")] == brief
    assert any("k=" in line for line in more) and not any("k=" in line for line in brief)
    assert max(map(len, more)) <= 80


def test_explain_is_coloured_only_on_a_terminal(runs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def coloured() -> bool:
        return "\x1b[" in CliRunner().invoke(cli, ["explain", runs, "000012"], color=True).output

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert b"\x1b[" not in succeed("explain", runs, "000012")
    assert coloured()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not coloured()


@pytest.mark.parametrize("command", ["stats", "inspect", "verify"])
def test_looking_inside_works_beside_a_writer(store: str, command: str) -> None:
    with lsmkv.open(store) as db:
        db[b"a"] = b"1"
        succeed(command, store)


@pytest.mark.parametrize("command", ["stats", "inspect"])
def test_index_and_filters_are_shown_side_by_side(store: str, command: str) -> None:
    fill_tables(store)
    with lsmkv.open(store, read_only=True) as db:
        info = db.inspect()
    shown = succeed(command, store).decode()
    assert info.index_and_filters() in shown
    found = json.loads(succeed(command, store, "--json"))
    found = found["memory"] if command == "stats" else found
    assert found["index_bytes_per_key"] == info.index_bytes_per_key
    assert found["filter_bytes_per_block"] == info.filter_bytes_per_block


def test_inspect_shows_the_identity_of_the_store(store: str) -> None:
    fill_tables(store)
    with lsmkv.open(store, read_only=True) as db:
        store_id = db.inspect().store_id
    assert f"Identity of the store: {store_id}\n" in succeed("inspect", store).decode()
    assert json.loads(succeed("inspect", store, "--json"))["store_id"] == store_id


def test_inspect_says_how_to_see_cut_keys_whole(store: str) -> None:
    fill_tables(store)
    hint = b"Some keys are cut; --json shows them whole.\n"
    assert hint not in succeed("inspect", store)
    with lsmkv.open(store) as db:
        db[b"z" * 33] = b""
        db.flush()
    assert hint in succeed("inspect", store)
    assert hint in succeed("inspect", store, "--blocks")


def test_inspect_says_so_also_where_the_terminal_cuts_them(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_tables(store)
    for width, is_cut in ((60, True), (200, False)):
        monkeypatch.setattr("lsmkv.cli.output._width", lambda width=width: width)
        assert (b"--json shows them whole" in succeed("inspect", store)) is is_cut


@pytest.mark.parametrize("key_count", [30, 300])
def test_the_bits_of_the_ribbon_filter_are_nearly_those_that_the_policy_builds(
    key_count: int,
) -> None:
    draw, filters = random.Random(5), 100
    built = sum(
        len(RIBBON.build([draw.getrandbits(63) for _ in range(key_count)], 2.0**-7)[0])
        for _ in range(filters)
    )
    found = filter_size(key_count, None, 2.0**-7)
    assert found.ribbon is not None
    assert found.ribbon.bit_count == pytest.approx(8 * built / filters, rel=0.03)


@pytest.mark.parametrize("given", [("--error-rate", "0.1", "--keys"), ("--keys", "1", "--bits")])
def test_a_number_of_400_digits_is_wrong_usage(given: tuple[str, ...]) -> None:
    assert "\nError: " in fail("filter-size", *given, "1" + "0" * 400, code=2)


# --- destroy ---


URL = "s3://bucket/store"


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        ("PUT http://169.254.169.254/latest/api/token: 403", "no credentials were found"),
        ("<Code>NoSuchBucket</Code>", "the bucket does not exist; create it first"),
    ],
)
def test_an_answer_of_object_storage_is_explained(answer: str, meaning: str) -> None:
    assert meaning in describe(OSError(f"{URL}/generations: LIST: {answer}"))


# --- one table, and the rate of its bits ---


def _blocks(path: str) -> list[dict[str, object]]:
    blocks: list[dict[str, object]] = json.loads(succeed("inspect", path, "--blocks", "--json"))[
        "blocks"
    ]
    return blocks


def test_inspect_tells_of_a_file_what_it_tells_of_the_table_in_its_store(
    store: str, tmp_path: Path
) -> None:
    fill_tables(store)
    (table,) = json.loads(succeed("inspect", store, "--blocks", "--json"))["tables"]
    alone = tmp_path / table["file_name"]
    alone.write_bytes(Path(store, table["file_name"]).read_bytes())
    assert json.loads(succeed("inspect", str(alone), "--blocks", "--json")) == table
    shown = succeed("inspect", str(alone)).decode()
    for fact in ("500, 0 deletions", "key0000 to key0499", "bloom, one per block", "bits) a block"):
        assert fact in shown
    assert succeed("inspect", str(alone), "--blocks") == succeed("inspect", store, "--blocks")


@pytest.mark.parametrize("place", ["data", "filters", "index", "properties", "footer", "cut"])
def test_a_damaged_file_is_named_or_its_filters_come_from_its_blocks(
    store: str, place: str
) -> None:
    fill_tables(store)
    (path,) = Path(store).glob("*.sst")
    before, footer, data = _blocks(str(path)), footer_of(path), bytearray(path.read_bytes())
    at = {
        "data": 0,
        "filters": footer.filters_offset,
        "index": footer.index_offset,
        "properties": footer.properties_offset,
        "footer": len(data) - 20,
        "cut": 0,
    }[place]
    data[at] ^= 0xFF
    path.write_bytes(data[:-100] if place == "cut" else data)
    if place == "filters":
        assert _blocks(str(path)) == before
        return
    message = fail("inspect", str(path), "--blocks")
    assert one_line(message) and message.startswith(f"Error: {path} at offset ")


def test_a_directory_named_as_a_table_is_a_store(tmp_path: Path) -> None:
    assert b"Identity of the store" in succeed("inspect", fill_tables(str(tmp_path / "x.sst")))


def test_of_a_bloom_filter_the_rate_of_its_bits_is_the_share_set_to_the_power_k(
    store: str,
) -> None:
    fill_tables(store)
    (path,) = Path(store).glob("*.sst")
    with lsmkv.open(store, read_only=True) as db:
        (table,) = db.tables()
        for number, block in enumerate(_blocks(str(path))):
            bits = table.filter_bits(number)
            share = sum(byte.bit_count() for byte in bits) / (8 * len(bits))
            assert block["bits_rate"] == share ** table.filter(number).probe_count


@pytest.mark.parametrize(
    ("form", "is_known"),
    [
        ({"filter_policy": "ribbon"}, True),
        ({"filter_policy": "grafite"}, False),
        ({"filter_policy": "none"}, False),
        ({"filter_granularity": "table", "filter_policy": "bloom"}, False),
    ],
)
def test_of_other_filters_it_is_the_exact_rate_or_not_known(
    store: str, form: dict[str, str], is_known: bool
) -> None:
    with lsmkv.open(store, **form) as db:  # type: ignore[arg-type]
        db.update({b"key%04d" % number: b"" for number in range(500)})
        db.flush()
    for block in json.loads(succeed("inspect", store, "--blocks", "--json"))["tables"][0]["blocks"]:
        assert block["bits_rate"] == (block["expected_rate"] if is_known else None)
    last = succeed("inspect", store, "--blocks").decode().splitlines()[-1]
    assert last.endswith(" -") is not is_known
