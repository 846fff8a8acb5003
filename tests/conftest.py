"""Small stores of many tables, runs and levels; and which tests pytest runs.

Slow tests run only on request, and nothing runs on compiled files older than their sources.
"""

from __future__ import annotations

import gc
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

import lsmkv
from clusters import dask_client
from golden_support import golden, pytest_addoption  # for pytest to find
from lsmkv.storage.storage import Storage
from object_servers import each_server, filled, moto, seaweedfs, server, url

__all__ = [
    "dask_client",
    "each_server",
    "filled",
    "golden",
    "moto",
    "pytest_addoption",
    "seaweedfs",
    "server",
    "url",
]

# No test asserts a wall-clock time, and a slow machine is no defect.
settings.register_profile("lsmkv", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lsmkv")

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


def pytest_configure() -> None:
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests, unless they are named or selected by ``-m``."""
    if config.option.markexpr or any("::" in argument for argument in config.args):
        return
    slow = [item for item in items if item.get_closest_marker("slow") is not None]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


@pytest.fixture
def heeds_interrupts() -> Iterator[None]:
    """Make this process and its children heed interrupts; a background job may ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
