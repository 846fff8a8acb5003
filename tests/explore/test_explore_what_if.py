"""What other filters would do: rebuilt filters are those that a store would have."""

from __future__ import annotations

from pathlib import Path

import pytest

import lsmkv
from explored_stores import make_store
from lsmkv.explore import intervals
from lsmkv.explore.contract import Rebuilt, WhatIf
from lsmkv.explore.exploration import Detail, Exploration
from lsmkv.explore.what_if import RATES
from lsmkv.filters import policies

POLICIES = [policy.name for policy in policies() if policy.name != "none"]


def what_if(path: Path) -> WhatIf:
    with Exploration(str(path)) as exploration:
        found = exploration.page(Detail()).what_if
    assert found is not None
    return found


def rebuilt(data: WhatIf, policy: str, rate: float) -> Rebuilt:
    (found,) = [r for r in data.rebuilt if (r.policy, r.requested_rate) == (policy, rate)]
    return found


@pytest.fixture(scope="module")
def bloom(tmp_path_factory: pytest.TempPathFactory) -> WhatIf:
    path = tmp_path_factory.mktemp("what_if") / "db"
    make_store(path, error_rate=0.05, filter_policy="bloom")
    return what_if(path)


def test_every_policy_is_rebuilt_at_every_rate(bloom: WhatIf) -> None:
    found = [(one.policy, one.requested_rate) for one in bloom.rebuilt]
    assert found == [("none", 1.0), *((policy, rate) for policy in POLICIES for rate in RATES)]
    assert len(RATES) >= 8


def test_a_store_of_few_and_dense_keys_is_asked_as_many(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        for number in range(20):
            db.put(b"%04d" % number, b"v")
        db.put(b"z" * 60_000, b"alone in its block")
        db.flush()
    assert what_if(tmp_path / "db").absent_count >= 1000


def test_without_filters_every_read_is_left(bloom: WhatIf) -> None:
    assert rebuilt(bloom, "none", 1.0).false_positives == bloom.absent_count


@pytest.mark.parametrize("policy", ["bloom", pytest.param("ribbon", marks=pytest.mark.slow)])
def test_the_policy_and_rate_of_the_store_give_its_own_filters(tmp_path: Path, policy: str) -> None:
    make_store(tmp_path / "db", error_rate=0.05, filter_allocation="uniform", filter_policy=policy)
    data = what_if(tmp_path / "db")
    same, present = rebuilt(data, policy, 0.05), data.present
    assert present is not None
    assert (present.policy, present.requested_rate) == (policy, 0.05)
    assert same.bit_count == present.bit_count == data.filter_bits
    assert same.false_positives == present.false_positives
    assert same.exact_rate == pytest.approx(present.exact_rate)


def test_measured_rates_agree_with_exact_ones(bloom: WhatIf) -> None:
    outside = [one for one in bloom.rebuilt if not one.low <= one.exact_rate <= one.high]
    assert len(outside) <= 6  # of 41 intervals of 95 %; 7 or more come by chance once in 200 seeds


def test_a_store_without_filters_has_none_at_present(tmp_path: Path) -> None:
    make_store(tmp_path / "db", 500, filter_policy="none")
    data = what_if(tmp_path / "db")
    assert data.present is None and data.filter_bits == 0
    assert rebuilt(data, "bloom", 0.01).bit_count > 0


def test_the_distributions_are_those_of_scipy() -> None:
    from scipy.stats import beta, t

    for freedom in (1, 2, 31, 5000, 3_000_000):
        assert intervals.t_quantile(freedom) == pytest.approx(t.ppf(0.975, freedom), rel=1e-9)
    for a, b in ((0.4, 3.0), (1, 64), (40, 2.5), (300, 2_000_000)):
        for x in (0.0, 1e-4, 0.03, 0.5, 0.97, 1.0):
            share = intervals.beta_share(x, a, b)
            assert share == pytest.approx(beta.cdf(x, a, b), rel=1e-8, abs=1e-12), (x, a, b)


def test_filters_of_prefixes_are_asked_for_absent_prefixes(tmp_path: Path) -> None:
    make_prefixed(tmp_path / "db")
    data = what_if(tmp_path / "db")
    assert data.present is not None
    assert data.present.false_positives < 0.05 * data.absent_count
    assert data.present.low <= data.present.exact_rate <= data.present.high


def make_prefixed(path: Path) -> None:
    with lsmkv.open(path, filter_key=lsmkv.DelimitedPrefix(b"/"), block_size_bytes=512) as db:
        for number in range(3000):
            db.put(b"u%04d/item%d" % (number // 3 * 7 % 9000, number % 3), b"v" * 10)
        db.flush()
