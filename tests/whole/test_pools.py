"""Read-only handles in pools, data loaders and preforking servers."""

from __future__ import annotations

import multiprocessing
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from conftest import fill, number_key, open_small

import lsmkv
from gates import WAIT_S
from other_processes import HANG_S, line_of, process

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

METHODS: Final = [
    method if method == "fork" else pytest.param(method, marks=pytest.mark.slow)
    for method in multiprocessing.get_all_start_methods()
]
"""How multiprocessing starts processes; those that import everything anew take seconds."""


class Dataset:
    """Entries of a store by number, as data loaders want them."""

    def __init__(self, path: str) -> None:
        self._db = open_small(path, read_only=True)

    def __getitem__(self, number: int) -> bytes:
        return self._db[number_key(number)]

    def close(self) -> None:
        self._db.close()


def load(dataset: Dataset, numbers: Any, found: Any) -> None:
    """A worker of a data loader: fetches what it is asked for until it is told to end."""
    for number in iter(numbers.get, None):
        found.put((number, dataset[number]))


@pytest.mark.parametrize("method", METHODS)
def test_workers_of_a_data_loader_read_beside_a_writer(path: str, method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    with open_small(path) as writer:
        contents = fill(writer, range(300))
        dataset = Dataset(path)
        assert dataset[3] == contents[number_key(3)]  # in the parent first
        numbers, found = context.Queue(), context.Queue()
        workers = [context.Process(target=load, args=(dataset, numbers, found)) for _ in range(2)]
        for worker in workers:
            worker.start()
        for number in range(100):
            numbers.put(number)
            writer.put(b"more%d" % number, b"value")
        got = dict(found.get(timeout=WAIT_S) for _ in range(100))
        for _ in workers:
            numbers.put(None)
        for worker in workers:
            worker.join(WAIT_S)
        assert [worker.exitcode for worker in workers] == [0, 0]
        assert got == {number: contents[number_key(number)] for number in range(100)}
        dataset.close()


def value_of(db: lsmkv.DB, key: bytes) -> bytes | None:
    return db.get(key)


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_takes_handles_as_arguments(
    path: str, store: dict[bytes, bytes], method: str
) -> None:
    with (
        open_small(path, read_only=True) as db,
        multiprocessing.get_context(method).Pool(2) as pool,
    ):
        keys = [number_key(number) for number in range(0, 300, 10)]
        found = pool.starmap_async(value_of, [(db, key) for key in keys]).get(WAIT_S)
        assert found == [store.get(key) for key in keys]


POOL = """
import multiprocessing, time

def write(path):
    with lsmkv.open(path, wait_s=0.2) as db:
        db[b"key"] = b"value"

def outcomes(pool, path):
    for result in [pool.apply_async(write, (path,)) for _ in range(4)]:
        try:
            result.get(30)
            yield "written"
        except lsmkv.LockedError as error:
            yield f"locked by {error.pid == os.getpid()}"

if __name__ == "__main__":
    path, method = sys.argv[1:]
    with lsmkv.open(path) as db, multiprocessing.get_context(method).Pool(2) as pool:
        print(set(outcomes(pool, path)))
        pool.close()
        pool.join()
"""
"""A program whose workers meet the lock that it holds itself."""


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_whose_workers_meet_a_lock_ends(path: str, tmp_path: Path, method: str) -> None:
    program = tmp_path / "pool.py"  # a file: spawned workers import it
    program.write_text(f"import os, sys, lsmkv\n{POOL}")
    # Killed, as a program that hangs, after far more time than it needs.
    command = [sys.executable, str(program), path, method]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    expected = (0, "{'locked by True'}\n")
    assert (ended.returncode, ended.stdout) == expected, ended.stderr


PREFORK = """
import signal, socket
path, workers = sys.argv[1], int(sys.argv[2])
db = lsmkv.open(path, read_only=True)
assert db[b"round"] == b"0"
listener = socket.create_server(("127.0.0.1", 0))
children = []
for _ in range(workers):
    child = os.fork()
    if not child:
        signal.alarm(60)
        while True:
            connection, _ = listener.accept()
            with connection:
                db.refresh()
                connection.sendall(b"%d %s" % (os.getpid(), db[b"round"]))
    children.append(child)
print(listener.getsockname()[1], flush=True)
sys.stdin.readline()
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
assert db[b"round"] == b"0"
db.close()
"""


def test_workers_of_a_preforking_server_read_beside_a_writer(path: str) -> None:
    with open_small(path) as writer:
        writer[b"round"] = b"0"
        with process(PREFORK, path, 3) as server:
            port = int(line_of(server))
            for number in range(1, 21):
                fill(writer, range(number))
                writer[b"round"] = b"%d" % number
                with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
                    pid, found = connection.recv(100).split()
                assert int(pid) != server.pid
                assert found == b"%d" % number
            _, errors = server.communicate("\n", timeout=WAIT_S)
            assert server.returncode == 0, errors
