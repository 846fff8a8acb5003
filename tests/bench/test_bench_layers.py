"""The measurements of layers run, and measure every operation that they name."""

from __future__ import annotations

import asyncio

import pytest

from bench.experiments import dbm_modules, loop_delay


@pytest.mark.parametrize("name", dbm_modules.contenders())
def test_every_dbm_module_of_this_python_is_measured(name: str) -> None:
    taken = dbm_modules.measure(name, entries=40, seed=1)
    assert list(taken) == [
        *("write", "close", "bytes/entry", "open", "read", "absent", "scan"),
        *("shelf write", "shelf read"),
    ]
    assert min(taken.values()) > 0


def test_what_stands_in_for_dbm_sqlite3_is_a_mapping(tmp_path: object) -> None:
    db = dbm_modules._LikeDbmSqlite3(f"{tmp_path}/data", "c")
    db[b"a"] = b"1"
    db[b"b"] = b"2"
    db[b"a"] = b"3"
    del db[b"b"]
    assert (dict(db), len(db)) == ({b"a": b"3"}, 1)
    with pytest.raises(KeyError):
        db[b"b"]
    db.close()


def test_the_table_of_dbm_modules_names_those_that_are_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    dbm_modules.main(["--entries", "40", "--rounds", "1"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in [*dbm_modules.contenders(), *dbm_modules.missing()])


@pytest.mark.parametrize("how", loop_delay.HOW)
def test_delays_of_a_loop_are_noted(how: str) -> None:
    found = asyncio.run(loop_delay.measure(how, 0.05))
    assert found.delays_s
    assert (found.writes > 0) == (how != "nobody writes")
    assert found.percentile_ms(50) <= found.percentile_ms(100)


def test_the_table_of_delays_has_every_way_of_writing(capsys: pytest.CaptureFixture[str]) -> None:
    loop_delay.main(["--seconds", "0.05"])
    shown = capsys.readouterr().out
    assert all(how in shown for how in loop_delay.HOW)
