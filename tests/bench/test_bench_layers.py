"""The measurements of layers run, and measure every operation that they name."""

from __future__ import annotations

import pytest

import event_loops
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


@pytest.mark.parametrize("how", loop_delay.HOW)
def test_delays_of_a_loop_are_noted(how: str) -> None:
    found = event_loops.run(loop_delay.measure(how, 0.05))
    assert found.delays_s
    assert (found.writes > 0) == (how != "nobody writes")
    assert found.percentile_ms(50) <= found.percentile_ms(100)
