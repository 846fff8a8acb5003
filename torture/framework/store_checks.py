"""Checks of a store's files, and of what a process leaves open."""

from __future__ import annotations

import gc
import os
import sys
import threading
from typing import Final

import lsmkv
from lsmkv.inspection.verify import VerifyReport
from lsmkv.storage.file_names import BACKUP, CURRENT, ERASED, LOCK, parse_file_name
from lsmkv.storage.storage import Storage
from lsmkv.tree.manifest import read_current, read_state
from torture.framework.part import UnsoundError

_DESCRIPTORS: Final = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"


def check_files(db: lsmkv.DB) -> VerifyReport:
    """Verify every byte of the store; UnsoundError if verify finds a problem."""
    report = db.verify()
    if not report.ok:
        raise UnsoundError(f"verify found problems:\n{report}")
    return report


def check_no_leftovers(db: lsmkv.DB, storage: Storage) -> None:
    """UnsoundError if the directory holds files that the store no longer needs."""
    db.wait_until_settled()
    found = leftovers(storage, db.path)
    if found:
        raise UnsoundError(f"files that the store does not need are left: {', '.join(found)}")


def leftovers(storage: Storage, directory: str) -> list[str]:
    """Files of an idle store that no manifest or log needs."""
    number = read_current(storage, directory)
    state = read_state(storage, directory, number)
    tables = {table.number for table in state.levels.tables()}
    needed = {("manifest", number), *(("table", table) for table in tables)}
    found = []
    for name in storage.list_directory(directory):
        parsed = parse_file_name(name)
        if name in (BACKUP, CURRENT, ERASED, LOCK) or parsed in needed:
            continue
        if parsed is None or parsed[0] != "log" or parsed[1] < state.log_number:
            found.append(name)
    return found


def open_descriptors() -> set[str]:
    """Number and target of every open descriptor of this process."""
    links = set()
    for name in os.listdir(_DESCRIPTORS):
        try:
            links.add(f"{name} {os.readlink(os.path.join(_DESCRIPTORS, name))}")
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
        except OSError:  # not Linux: there is no link to read
            links.add(name)
    return links


def store_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("lsmkv")}


class Traces:
    """The threads and descriptors of this process now, to notice later ones."""

    def __init__(self) -> None:
        gc.collect()
        self._threads = set(threading.enumerate())
        self._descriptors = open_descriptors()

    def check(self) -> None:
        """UnsoundError if there are more threads or descriptors than at the start."""
        gc.collect()
        threads = set(threading.enumerate()) - self._threads
        if threads:
            raise UnsoundError(f"threads are still running: {threads}")
        descriptors = open_descriptors()
        if len(descriptors) > len(self._descriptors):
            added = sorted(descriptors - self._descriptors)[:10]
            raise UnsoundError(f"descriptors are still open: {', '.join(added)}")
