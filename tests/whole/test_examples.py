"""The examples run, and print what their text promises."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import lsmkv
from gates import LONG_WAIT_S
from time_limits import join

EXAMPLES = Path(__file__).parents[2] / "examples"


def output_of(name: str) -> str:
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_WAIT_S,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def module_of(name: str) -> Any:
    """An example as a module, new each time."""
    found = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def run_with_examples(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that may import examples, until all processes that have its output have ended."""
    script = folder / "program.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(EXAMPLES)!r})\n{program}")
    return subprocess.run(
        [sys.executable, str(script), str(folder / "store")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_unique_emails_stay_unique_and_no_money_is_lost() -> None:
    output = output_of("unique_emails")
    addresses, accounts = numbers(r"register (\d+) addresses: (\d+) accounts", output)
    assert accounts == addresses
    money, paid_in, least = numbers(r"money: ([\d,]+) of ([\d,]+); least: (-?\d+)", output)
    assert money == paid_in
    assert least >= 0


@pytest.mark.slow
def test_frontier_fetches_no_page_twice_and_goes_on_after_a_restart() -> None:
    output = output_of("frontier")
    assert numbers(r"fetched: ([\d,]+), twice: (\d+)", output) == [1500, 0]
    waiting, spared, wasted = numbers(
        r"waiting: ([\d,]+); reads saved: ([\d,]+), wasted: ([\d,]+)", output
    )
    assert waiting > 10_000
    assert wasted < 0.03 * spared


def test_frontier_fetches_the_page_again_whose_fetch_was_cut_short(tmp_path: Path) -> None:
    frontier = module_of("frontier")
    links_of, fetched = frontier.links_of, list[bytes]()

    def cut_short(url: bytes) -> list[bytes]:
        fetched.append(url)
        if len(fetched) == 10:
            raise RuntimeError("between the fetch and the batch")
        return list(links_of(url))

    frontier.links_of = cut_short
    with lsmkv.open(tmp_path) as db, pytest.raises(RuntimeError, match="between"):
        frontier.crawl(db, 50)
    with lsmkv.open(tmp_path) as db:
        frontier.crawl(db, 50)
    assert fetched[9] == fetched[10]
    assert len({*fetched}) == len(fetched) - 1 == 59


def test_event_log_is_read_whole_by_both_readers() -> None:
    output = output_of("event_log")
    assert sorted(output.splitlines()) == [
        f"{name} read 3,000 of 3,000 events" for name in ("audit", "mail")
    ]


def test_event_log_readers_end_when_the_writer_is_gone(tmp_path: Path) -> None:
    run = run_with_examples(
        """
import multiprocessing, os
import event_log, lsmkv

if __name__ == "__main__":
    log = lsmkv.open(sys.argv[1])
    log[bytes(8)] = b"one event, and no end"
    processes = multiprocessing.get_context("spawn")
    reader = lsmkv.open(sys.argv[1], read_only=True)
    processes.Process(target=event_log.follow, args=(reader, "audit")).start()
    os._exit(9)  # as kill -9 does
""",
        tmp_path,
    )
    assert run.returncode == 9
    assert "audit: the writer is gone" in run.stderr


@pytest.mark.slow
def test_feature_store_gives_the_workers_every_row() -> None:
    output = output_of("feature_store")
    assert numbers(r"([\d,]+) of ([\d,]+) rows right", output) == [10_000, 10_000]


def test_job_queue_does_every_job_in_order() -> None:
    assert output_of("job_queue") == "4,000 jobs done, in order: True\n"


def test_job_queue_loses_no_job_of_a_process_that_is_killed(tmp_path: Path) -> None:
    run = run_with_examples(
        """
import os, lsmkv, job_queue

queue = job_queue.JobQueue(lsmkv.open(sys.argv[1]))
for number in range(3):
    queue.put(b"job %d" % number)
queue.take()
os._exit(9)  # as kill -9 does
""",
        tmp_path,
    )
    assert run.returncode == 9
    with lsmkv.open(tmp_path / "store") as db:
        queue = module_of("job_queue").JobQueue(db)
        queue.put(b"job 3")
        assert [queue.take()[1] for _ in range(4)] == [b"job %d" % number for number in range(4)]
        with pytest.raises(KeyError, match="no job is left"):
            queue.take()


def test_job_queue_that_threads_use_loses_no_job(tmp_path: Path) -> None:
    taken, interval_s = list[bytes](), sys.getswitchinterval()
    with lsmkv.open(tmp_path) as db:
        queue = module_of("job_queue").JobQueue(db)

        def put_and_take(name: int) -> None:
            for number in range(2_000):
                queue.put(b"%d-%d" % (name, number))
                if number % 2:
                    taken.append(queue.take()[1])

        threads = [threading.Thread(target=put_and_take, args=(name,)) for name in range(4)]
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            join(*threads)
        finally:
            sys.setswitchinterval(interval_s)
        with contextlib.suppress(KeyError):
            while True:
                taken.append(queue.take()[1])
    assert len(taken) == 8_000 == len({*taken})


@pytest.mark.slow
def test_http_cache_asks_once_for_what_may_be_kept() -> None:
    output = output_of("http_cache")
    requests, asked, news = numbers(r"(\d+) requests; the server got (\d+), (\d+) for", output)
    assert asked - news == 20
    assert asked < requests / 4


def test_sessions_end_by_themselves() -> None:
    output = output_of("sessions")
    logins, now, later, stored = numbers(
        r"([\d,]+) logins, ([\d,]+) sessions now; an hour later (\d+), on disk (\d+)", output
    )
    assert (later, stored) == (0, 0) and 0 < now < logins / 2


def test_every_example_is_tested() -> None:
    tests = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    for example in EXAMPLES.glob("*.py"):
        is_run, is_imported = f'output_of("{example.stem}")', f"\nimport {example.stem}\n"
        assert is_run in tests or is_imported in tests, example


@pytest.mark.slow
def test_cluster_build_balances_the_partitions() -> None:
    output = output_of("cluster_build")
    pairs, visitors = numbers(r"([\d,]+) pairs, ([\d,]+) visitors", output)
    assert pairs == 40_000 > visitors
    assert numbers(r"largest partition: ([\d.]+) of the mean", output)[0] < 1.5
    assert numbers(r"([\d,]+) visitors read back", output) == [visitors]
