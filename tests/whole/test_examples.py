"""The examples run, and print what their text promises."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
OPENING_A_STORE = ("frontier", "event_log", "feature_store", "job_queue", "http_cache")


def output_of(name: str) -> str:
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def numbers(pattern: str, output: str) -> list[float]:
    found = re.search(pattern, output)
    assert found, output
    return [float(group.replace(",", "")) for group in found.groups()]


def test_blacklist_stops_the_one_address_and_few_others() -> None:
    output = output_of("blacklist")
    assert "stopped: 192.168.1.[1]\n" in output
    wrong, expected = numbers(r"full: ([\d.]+)% of the innocent, ([\d.]+)% expected", output)
    assert wrong == pytest.approx(expected, rel=0.4)


def test_url_check_blocks_what_is_malicious_and_spares_the_service() -> None:
    output = output_of("url_check")
    visits, blocked = numbers(r"([\d,]+) visits, (\d+) blocked", output)
    calls, without = numbers(r"calls to the service: (\d+); without remembering: (\d+)", output)
    assert blocked > 0
    assert blocked <= calls < without < visits / 10


def test_crawler_forgets_no_page_in_the_union() -> None:
    output = output_of("crawler")
    assert "100,000,000 URLs: 5 GB as a list, 0.12 GB as a filter\n" in output
    assert numbers(r"union misses: (\d+)", output) == [0]
    (pages,) = numbers(r"about ([\d,]+) pages", output)
    assert pages == pytest.approx(20_000 * (1 - 2.718281828**-1), rel=0.03)


def test_bloom_join_ships_a_fraction_and_joins_everything() -> None:
    output = output_of("bloom_join")
    shipped, orders, joined = numbers(r"shipped: ([\d,]+) of ([\d,]+), joined: ([\d,]+)", output)
    assert joined <= shipped < joined + 0.01 * orders
    shipped_bytes, all_bytes = numbers(r"bytes shipped: ([\d,]+) instead of ([\d,]+)", output)
    assert shipped_bytes < all_bytes / 20


def test_cache_admission_hits_more_and_writes_less() -> None:
    output = output_of("cache_admission")
    plain_hits, plain_writes = numbers(r"every object: ([\d.]+)% hits, ([\d,]+) writes", output)
    hits, writes = numbers(r"second request: ([\d.]+)% hits, ([\d,]+) writes", output)
    assert hits > 2 * plain_hits
    assert writes < plain_writes / 10


def test_placement_overlooks_no_worker_and_asks_few_without_need() -> None:
    output = output_of("placement")
    (size,) = numbers(r"([\d,]+) bytes for a worker", output)
    assert 1000 < size < 1300
    asked, everyone, needless, overlooked = numbers(
        r"asked: ([\d,]+) of ([\d,]+); asked without need: (\d+); overlooked: (\d+)", output
    )
    assert overlooked == 0
    assert needless < 0.02 * everyone
    assert asked < everyone / 20


def test_folder_lookup_finds_every_file_in_few_reads() -> None:
    output = output_of("folder_lookup")
    found, _ = numbers(r"(\d+) found of (\d+)", output)
    assert found == 100
    reads, without = numbers(r"folders read: ([\d,]+) instead of ([\d,]+)", output)
    assert found <= reads < without / 20


def test_cache_digests_spare_most_questions_and_find_most_pages() -> None:
    output = output_of("cache_digests")
    (had,) = numbers(r"a neighbour had the page ([\d,]+) times", output)
    asked, without, answered = numbers(
        r"asked: ([\d,]+) times instead of ([\d,]+); they had it: ([\d,]+)", output
    )
    assert answered <= asked < without / 8
    assert 0.5 * had < answered <= had
    (size,) = numbers(r"digest: ([\d,]+) bytes", output)
    assert size < 1300


def test_cache_warmup_loads_the_records_of_recent_requests() -> None:
    output = output_of("cache_warmup")
    size, loaded, records = numbers(r"filter: ([\d,]+) bytes; loaded: ([\d,]+) of ([\d,]+)", output)
    assert loaded < records / 4
    assert size < loaded * len("record 00000")
    requests, cold, warm = numbers(r"first ([\d,]+) requests: ([\d,]+) hits cold, ([\d,]+)", output)
    assert cold < 0.6 * requests
    assert warm > 0.85 * requests


def test_light_client_misses_nothing_and_chooses_its_decoys() -> None:
    output = output_of("light_client")
    found = re.findall(r"([\d,]+) bytes of ([\d,]+) sent, (\d+) missed, ([\d,]+) decoys", output)
    sent, every, missed, decoys = zip(
        *[[int(number.replace(",", "")) for number in line] for line in found], strict=True
    )
    assert missed == (0, 0, 0)
    assert sent[0] < every[0] / 100
    assert decoys[0] < 20 < decoys[1] < decoys[2]
    assert decoys[2] == pytest.approx(0.1 * 20_000, rel=0.3)


def test_unique_emails_stay_unique_and_no_money_is_lost() -> None:
    output = output_of("unique_emails")
    addresses, accounts = numbers(r"register (\d+) addresses: (\d+) accounts", output)
    assert accounts == addresses
    money, paid_in, least = numbers(r"money: ([\d,]+) of ([\d,]+); least: (-?\d+)", output)
    assert money == paid_in
    assert least >= 0


def test_frontier_fetches_no_page_twice_and_goes_on_after_a_restart() -> None:
    output = output_of("frontier")
    assert numbers(r"fetched: ([\d,]+), twice: (\d+)", output) == [1500, 0]
    waiting, spared, wasted = numbers(
        r"waiting: ([\d,]+); reads saved: ([\d,]+), wasted: ([\d,]+)", output
    )
    assert waiting > 10_000
    assert wasted < 0.03 * spared


def test_event_log_is_read_whole_by_both_readers() -> None:
    output = output_of("event_log")
    assert sorted(output.splitlines()) == [
        f"{name} read 3,000 of 3,000 events" for name in ("audit", "mail")
    ]


def test_feature_store_gives_the_workers_every_row() -> None:
    output = output_of("feature_store")
    assert numbers(r"([\d,]+) of ([\d,]+) rows right", output) == [10_000, 10_000]


def test_job_queue_takes_the_last_job_as_fast_as_the_first() -> None:
    output = output_of("job_queue")
    assert "4,000 jobs taken, in order: True\n" in output
    third, last = numbers(r"third quarter: ([\d,]+), for the last: ([\d,]+)", output)
    assert last <= third < 5 * 1000


def test_http_cache_asks_once_for_what_may_be_kept() -> None:
    output = output_of("http_cache")
    requests, asked, news = numbers(r"(\d+) requests; the server got (\d+), (\d+) for", output)
    assert asked - news == 20
    assert asked < requests / 4


@pytest.mark.parametrize("name", OPENING_A_STORE)
def test_an_example_that_opens_a_store_is_short(name: str) -> None:
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) < 60


def test_every_example_is_tested() -> None:
    tests = Path(__file__).read_text(encoding="utf-8")
    for example in EXAMPLES.glob("*.py"):
        assert f'output_of("{example.stem}")' in tests


@pytest.mark.slow
def test_cluster_build_balances_the_partitions() -> None:
    output = output_of("cluster_build")
    pairs, visitors = numbers(r"([\d,]+) pairs, ([\d,]+) visitors", output)
    assert pairs == 40_000 > visitors
    assert numbers(r"largest partition: ([\d.]+) of the mean", output)[0] < 1.5
    assert numbers(r"([\d,]+) visitors read back", output) == [visitors]
