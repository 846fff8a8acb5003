"""Small stores of many tables, runs and levels; and which tests pytest runs.

Slow tests run only on request, and nothing runs on compiled files older than their sources.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

import lsmkv
from browsed_pages import browsed, chromium, data, file, shown
from caches import cache, clock
from clusters import dask_client
from golden_support import golden, pytest_addoption  # for pytest to find
from lsmkv.storage.storage import Storage
from object_servers import each_server, filled, moto, seaweedfs, server, url
from outside_tables import unchanged
from repair_stores import output
from table_files import tables
from texts import check_text

__all__ = [
    "browsed",
    "cache",
    "check_text",
    "chromium",
    "clock",
    "dask_client",
    "data",
    "each_server",
    "file",
    "filled",
    "golden",
    "moto",
    "output",
    "pytest_addoption",
    "seaweedfs",
    "server",
    "shown",
    "tables",
    "unchanged",
    "url",
]

# No test asserts a wall-clock time, and a slow machine is no defect.
_SLOW_MACHINE: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("short", _SLOW_MACHINE, max_examples=15)
settings.register_profile("long", _SLOW_MACHINE, max_examples=400)  # `make test-long` chooses it
settings.load_profile("short")

SMALL: Final = lsmkv.Options(
    write_buffer_size_bytes=8192,
    block_size_bytes=512,
    level1_size_bytes=32768,
    table_size_bytes=16384,
    compression="none",
)

BACKGROUNDS: Final[tuple[dict[str, Any], ...]] = (
    {"background": "thread"},
    {"background": "process", "process_job_size_bytes": 0},
)
"""Options: flushes and compactions in threads, or each of them in a helper process."""

_ALL_SLOW: Final = re.compile(r"^pytestmark = .*pytest\.mark\.slow\b", re.MULTILINE)

_UNPACKING_S: Final = 10.0
"""Unpacking a wheel writes a module and its compiled form in any order, at about the same time."""


def open_small(
    path: str | Path,
    *,
    create_if_missing: bool = True,
    error_if_exists: bool = False,
    read_only: bool = False,
    storage: Storage | None = None,
    **overrides: Any,
) -> lsmkv.DB:
    """``lsmkv.open`` with the options of :data:`SMALL` as defaults."""
    return lsmkv.open(
        path,
        SMALL,
        create_if_missing=create_if_missing,
        error_if_exists=error_if_exists,
        read_only=read_only,
        storage=storage,
        **overrides,
    )


def contents(path: str | Path, storage: Storage | None = None) -> dict[bytes, bytes]:
    """The contents of an existing small store."""
    with open_small(path, create_if_missing=False, storage=storage) as db:
        return dict(db.items())


def number_key(number: int) -> bytes:
    """A key that sorts as its number does."""
    return b"key%06d" % number


def fill(
    db: lsmkv.DB, numbers: range, *, value: bytes = b"v" * 30, seed: int = 1
) -> dict[bytes, bytes]:
    """Put ``number_key`` of each number, in random order; every value names its key."""
    shuffled = list(numbers)
    random.Random(seed).shuffle(shuffled)
    contents = {number_key(number): number_key(number) + value for number in shuffled}
    for key, content in contents.items():
        db.put(key, content)
    return dict(sorted(contents.items()))


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A path for a store; nothing is there."""
    return str(tmp_path / "store")


@pytest.fixture
def db(path: str) -> Iterator[lsmkv.DB]:
    with open_small(path) as opened:
        yield opened


@pytest.fixture
def store(path: str) -> dict[bytes, bytes]:
    """What a closed store at ``path`` holds, in tables and a log."""
    with open_small(path) as db:
        contents = fill(db, range(200))
        db.flush()
        contents.update(fill(db, range(200, 250)))
    return contents


@pytest.fixture(params=BACKGROUNDS, ids=lambda options: str(options["background"]))
def background(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options for each place of background work: a test that takes them runs once with each."""
    options: dict[str, Any] = request.param
    return options


def outdated_sources(root: Path) -> list[Path]:
    """Modules in ``root`` that are newer than their compiled form.

    Their code is in one library beside the package, which each module's own file only loads.
    """
    library = max((file.stat().st_mtime for file in root.glob("*__mypyc*.so")), default=0.0)
    found = []
    for extension in sorted(root.glob("lsmkv/**/*.so")):
        source = extension.with_name(f"{extension.name.partition('.')[0]}.py")
        compiled = library or extension.stat().st_mtime
        if not source.exists() or source.stat().st_mtime > compiled + _UNPACKING_S:
            found.append(source)
    return found


_END_S: Final = 60.0
_LIMIT = pytest.StashKey[Callable[[float], None]]()
"""Ends this process after so many seconds, unless it is called again; 0: never."""


def pytest_configure(config: pytest.Config) -> None:
    errors = os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2)  # without what tests print
    limit_s = float(config.getini("faulthandler_timeout"))

    def limit(seconds: float) -> None:
        if seconds:
            faulthandler.dump_traceback_later(seconds, exit=True, file=errors)

    config.stash[_LIMIT] = limit
    # A forked child would wait for ever for the thread that counts the time, when it sets a limit itself.
    os.register_at_fork(
        before=faulthandler.cancel_dump_traceback_later, after_in_parent=lambda: limit(limit_s)
    )
    heed_interrupts()
    refuse_outdated_files()


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Limit the end of a test that failed, too: pytest has lifted its limit, for debuggers."""
    item.config.stash[_LIMIT](float(item.config.getini("faulthandler_timeout")))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Limit the end of this process: a thread that a test left behind may never end."""
    if not hasattr(config, "workerinput"):  # a worker's end is awaited, and limited, elsewhere
        config.stash[_LIMIT](_END_S)


def heed_interrupts() -> None:
    """Let interrupts end this process and its children, also in a job that a script put aside.

    A shell without job control makes the jobs that it runs in the background ignore them.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def refuse_outdated_files() -> None:
    """Refuse to test compiled files that are older than their sources."""
    root = Path(__file__).parent.parent
    outdated = outdated_sources(root)
    if outdated:
        names = ", ".join(str(source.relative_to(root)) for source in outdated)
        raise pytest.UsageError(
            f"{root} would run compiled files older than their sources ({names}): "
            "remove the .so files in lsmkv and beside it, or compile them anew"
        )


@pytest.fixture(scope="module", autouse=True)
def small_collections() -> None:
    """Keep what is there out of garbage collections, which some tests run a thousand times.

    That is all modules, collected tests and what earlier files left; nothing is given back, for
    a single later file would then pay for all of it.
    """
    gc.collect()
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import a file whose tests are all slow, when no slow test is to run."""
    if config.option.markexpr != "not slow" or not collection_path.name.startswith("test_"):
        return None
    return True if _ALL_SLOW.search(collection_path.read_text("utf-8")) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests, unless they are named or selected by ``-m``."""
    if config.option.markexpr or any("::" in argument for argument in config.args):
        return
    slow = [item for item in items if item.get_closest_marker("slow") is not None]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
