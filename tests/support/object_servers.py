"""Object stores on the loopback for tests: moto's server, and SeaweedFS where it is installed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from bench.harness.object_server import BUCKET, ObjectServer, ServerKind, missing, start
from published_stores import published

_NUMBERS = itertools.count(1)


def _running(kind: ServerKind) -> Iterator[ObjectServer]:
    reason = missing(kind)
    if reason and kind == "seaweedfs":
        pytest.skip(reason)
    with start(kind) as server:
        yield server


@pytest.fixture(scope="session")
def moto() -> Iterator[ObjectServer]:
    yield from _running("moto")


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[ObjectServer]:
    yield from _running("seaweedfs")


def _ready(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    server.calm()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


@pytest.fixture
def server(moto: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """moto's server without faults, to which the environment leads S3 clients."""
    yield _ready(moto, monkeypatch)
    moto.calm()


@pytest.fixture(params=["moto", pytest.param("seaweedfs", marks=pytest.mark.slow)])
def each_server(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ObjectServer]:
    """Each of the two servers in turn, as ``server``; the second, which starts slowly, in slow tests."""
    found: ObjectServer = request.getfixturevalue(request.param)
    yield _ready(found, monkeypatch)
    found.calm()


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory, moto: ObjectServer) -> str:
    """The URL of a published store of one run, which no test changes."""
    url = f"s3://{BUCKET}/filled"
    with pytest.MonkeyPatch.context() as environment:
        for name, setting in moto.environment.items():
            environment.setenv(name, setting)
        published(tmp_path_factory.mktemp("filled"), url)
    return url


@pytest.fixture
def url() -> str:
    """A URL below which there is nothing."""
    return f"s3://{BUCKET}/store{next(_NUMBERS)}"
