"""Small stores that work in helper processes, and those processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from conftest import open_small

import lsmkv
from damage import files
from lsmkv.background.process.parent import HelperProcess
from lsmkv.options import Background

MODES: Final[tuple[Background, ...]] = ("thread", "process")


def open_store(path: str | Path, background: Background = "process", **options: Any) -> lsmkv.DB:
    """A small store that does every flush and compaction in a process."""
    return open_small(path, background=background, **{"process_job_size_bytes": 0, **options})


def helpers(db: lsmkv.DB) -> tuple[HelperProcess, HelperProcess]:
    """The helpers for flushes and for compactions."""
    background = db._engine.background
    runners = (background.flusher.runner, background.compactor.runner)
    assert runners[0] is not None and runners[1] is not None
    return runners[0].process, runners[1].process


def running(helper: HelperProcess) -> int:
    """The id of the helper's running process."""
    assert helper.pid is not None
    return helper.pid


def is_running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def table_names(path: str) -> set[str]:
    return {file.name for file in files(Path(path), ".sst")}


def live_tables(db: lsmkv.DB) -> set[str]:
    return {info.file_name for info in db.inspect().tables()}
