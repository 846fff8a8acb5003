"""The crash parts, small, and planted defects that they must find."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import ClassVar

import pytest

import lsmkv
from lsmkv.log.reader import MARK_BYTES
from lsmkv.storage.file_names import UNFINISHED
from lsmkv.storage.storage import AppendFile
from torture.crash import crash_states, faults, workloads
from torture.crash.disk import STORE, Image
from torture.crash.disk_storage import MemoryAppendFile, MemoryStorage
from torture.crash.examination import Examiner, Verdict
from torture.crash.fault_session import OPTIONS
from torture.crash.injection import Fault
from torture.crash.workloads import VARIANTS
from torture.framework import cli
from torture.framework.part import Failure, Outcome, Part, Scale, Settings

pytestmark = pytest.mark.slow  # `make test` tests the store, not its testers

TINY = workloads.Size(operations=13, rounds=1, samples=1, share=0.01)
SESSIONS = workloads.Size(len(workloads.SESSIONS) + 1, rounds=1, samples=-1, share=0.0)
RECOVERED = workloads.Size(operations=13, rounds=1, samples=1, share=0.1)
"""After each end of the process alone, the recovery crashes too."""


def settings(directory: Path, replay: str | None = None, limit_s: float = 600.0) -> Settings:
    return Settings(Scale.CI, limit_s, 1, directory, replay)


# --- nothing is found ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variants", "fewest_states"),
    [(["leveled"], 150), pytest.param(list(VARIANTS), 1000, marks=pytest.mark.slow)],
    ids=["one", "all"],
)
def test_losing_power_anywhere_loses_nothing_synced(
    tmp_path: Path, variants: list[str], fewest_states: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workloads, "VARIANTS", {name: VARIANTS[name] for name in variants})
    outcome = crash_states.run(settings(tmp_path), TINY)
    assert outcome.failures == []
    assert outcome.counts["workloads"] == len(variants)
    assert outcome.counts["distinct states"] > fewest_states
    assert outcome.counts["recoveries cut short"] > 0


def test_losing_power_in_any_of_several_sessions_loses_nothing_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workloads, "VARIANTS", {"sessions": VARIANTS["sessions"]})
    outcome = crash_states.run(settings(tmp_path), SESSIONS)
    assert outcome.failures == []
    assert outcome.counts["operations of stores recorded"] == len(workloads.SESSIONS) + 1


@pytest.mark.longest
@pytest.mark.parametrize("seed", range(2, 6))
def test_losing_power_anywhere_loses_nothing_synced_with_other_seeds(
    tmp_path: Path, seed: int
) -> None:
    outcome = crash_states.run(Settings(Scale.SHORT, 120.0, seed, tmp_path))
    assert outcome.failures == []


def test_a_failing_disk_loses_nothing_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(faults.SHARES, Scale.CI, 0.02)
    outcome = faults.run(settings(tmp_path))
    assert outcome.failures == []
    assert outcome.counts["sessions"] > 50


@pytest.mark.longest
def test_every_failure_of_the_disk_loses_nothing_acknowledged(tmp_path: Path) -> None:
    outcome = faults.run(Settings(Scale.SHORT, 600.0, 1, tmp_path))
    assert outcome.failures == []


@pytest.fixture
def one_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "VARIANTS", {"leveled": {}})
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # replays keep files


@pytest.mark.usefixtures("one_workload")
def test_a_replay_meets_the_files_that_the_run_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Examiner, image: Image) -> tuple[Verdict, bool]:
        return Verdict((0,), f"refused: {sorted(image.items())}"), True

    monkeypatch.setattr(Examiner, "examine", refuse)
    monkeypatch.setattr(crash_states, "_MOST_FAILURES", 1000)
    found = crash_states.run(settings(tmp_path), RECOVERED).failures
    once = [failure for failure in found if "of the recovery" not in failure.what]
    twice = [failure for failure in found if "of the recovery: unsynced data is t" in failure.what]
    assert once and twice
    for failure in once[-2:] + twice[::25]:  # torn and trash in turn
        assert crash_states.run(settings(tmp_path, failure.replay), RECOVERED).failures == [failure]


# --- storages that are broken on purpose ---------------------------------------------------------


class ForgetsDirectories(MemoryStorage):
    """Syncs no directory."""

    def sync_directory(self, path: str) -> None:
        pass


class ForgetsParent(MemoryStorage):
    """Does not sync the parent of the store's directory."""

    def sync_directory(self, path: str) -> None:
        if path == STORE:
            super().sync_directory(path)


class _Unsynced(MemoryAppendFile):
    def _sync(self) -> None:
        pass


class RenamesUnsynced(MemoryStorage):
    """Does not sync files before they are renamed."""

    suffix: ClassVar[str] = UNFINISHED

    def create(self, path: str) -> AppendFile:
        file = super().create(path)
        if self.suffix not in path:
            return file
        file.close()
        return _Unsynced(self, path, self.disk.names[path], 0)


class LosesSyncedWrites(RenamesUnsynced):
    """Claims to sync logs, and does not."""

    suffix = ".log"


class LosesTables(RenamesUnsynced):
    """Claims to sync tables, and does not."""

    suffix = ".sst"


class RemovesFirst(MemoryStorage):
    """Replaces a file by removing it and renaming the other."""

    def replace(self, source: str, target: str) -> None:
        self.remove(target)
        super().replace(source, target)


class _Trusted(MemoryAppendFile):
    """A log that an earlier session wrote: so many bytes that it left unsynced stay so."""

    trusted = range(0)
    length = 0

    def _sync(self) -> None:
        file = self._storage.disk.files[self._file]
        unsynced = len(file.content.rstrip(b"\0")) - len(file.durable.rstrip(b"\0"))
        if self.offset != self.length or unsynced not in self.trusted:
            super()._sync()


class TakesMarksForSynced(MemoryStorage):
    """Trusts the mark with which a log was closed, as if it had been synced."""

    trusted: ClassVar[range] = range(1, MARK_BYTES + 1)

    def open_append(self, path: str, length: int) -> AppendFile:
        file = super().open_append(path, length)
        if not path.endswith(".log"):
            return file
        file.close()
        log = _Trusted(self, path, self.disk.names[path], length)
        log.trusted, log.length = self.trusted, length
        return log


class TrustsTheDead(TakesMarksForSynced):
    """Takes what a killed process wrote for synced."""

    trusted = range(MARK_BYTES + 1, 1 << 20)


BROKEN = (
    ForgetsDirectories,
    ForgetsParent,
    RenamesUnsynced,
    LosesSyncedWrites,
    # Many states are tried until these two lose something.
    LosesTables,
    RemovesFirst,
)


@pytest.mark.parametrize("broken", BROKEN)
def test_data_lost_by_a_broken_storage_are_found_and_replayed(
    tmp_path: Path, broken: type[MemoryStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workloads, "VARIANTS", {"leveled": {}})
    outcome = crash_states.run(settings(tmp_path), TINY, broken)
    failure = outcome.failures[0]
    assert failure.what.startswith("seed 1, workload leveled, crash after disk operation")
    again = crash_states.run(settings(tmp_path, failure.replay), TINY, broken)
    assert again.failures == [failure]
    kept = Path(again.notes[0].rpartition(" are kept in ")[2])
    assert kept.is_dir()
    for file in kept.iterdir():
        file.unlink()
    kept.rmdir()


@pytest.mark.parametrize("broken", [TakesMarksForSynced, TrustsTheDead])
def test_what_a_session_wrongly_takes_for_synced_is_found(
    tmp_path: Path, broken: type[MemoryStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workloads, "VARIANTS", {"sessions": VARIANTS["sessions"]})
    outcome = crash_states.run(settings(tmp_path), SESSIONS, broken)
    assert "its contents are those after operation" in outcome.failures[0].what


class _RetriesSyncs(MemoryAppendFile):
    def sync(self) -> None:
        try:
            super().sync()
        except OSError:
            self.broken = False
            super().sync()


class RetriesSyncs(MemoryStorage):
    """Repeats a failed sync."""

    def create(self, path: str) -> AppendFile:
        super().create(path).close()
        return _RetriesSyncs(self, path, self.disk.names[path], 0)


class _SwallowsErrors(MemoryAppendFile):
    def append(self, data: bytes, more: bytes = b"") -> None:
        with contextlib.suppress(OSError):
            super().append(data, more)


class SwallowsErrors(MemoryStorage):
    """Hides that a write failed."""

    def create(self, path: str) -> AppendFile:
        super().create(path).close()
        return _SwallowsErrors(self, path, self.disk.names[path], 0)


class LeavesOpen(MemoryStorage):
    """Never closes a file."""

    def let_go(self, number: int) -> None:
        pass


@pytest.mark.parametrize(
    ("broken", "plan"),
    [
        (RetriesSyncs, "sync/EIO/once/crash/{}"),
        (SwallowsErrors, "append/ENOSPC/once/reopen/{}"),
        (LeavesOpen, "append/EIO/once/resume/{}"),
    ],
)
def test_wrong_reactions_of_a_broken_storage_to_failures_are_found(
    tmp_path: Path, broken: type[MemoryStorage], plan: str
) -> None:
    found = next(
        failure
        for number in range(30)
        for failure in faults.run(settings(tmp_path, plan.format(number)), broken).failures
    )
    assert faults.run(settings(tmp_path, found.replay), broken).failures


# --- defects that the parts have found -----------------------------------------------------------


def test_a_directory_whose_making_failed_half_way_is_made_durable_by_the_next_opening() -> None:
    storage = MemoryStorage()
    storage.faults.add(Fault("sync_directory"))
    with pytest.raises(OSError, match="injected"):
        lsmkv.open(STORE, storage=storage)
    with lsmkv.open(STORE, storage=storage) as db:
        db.put(b"k", b"v", sync=True)
    with lsmkv.open(STORE, storage=MemoryStorage(storage.disk.the_least())) as db:
        assert db[b"k"] == b"v"


def test_opening_rewrites_the_bytes_that_a_failed_sync_dropped() -> None:
    storage = MemoryStorage()
    db = lsmkv.open(STORE, OPTIONS, storage=storage)
    db[b"k"] = b"v"
    storage.faults.add(Fault("sync"))
    with pytest.raises(OSError, match="injected"):
        db.sync()
    with pytest.raises(OSError, match="earlier failure"):
        db.close()
    with lsmkv.open(STORE, OPTIONS, storage=storage) as db:
        db.sync()
        image = storage.disk.the_least()
    with lsmkv.open(STORE, OPTIONS, storage=MemoryStorage(image)) as db:
        assert db[b"k"] == b"v"


# --- the command ---------------------------------------------------------------------------------


def _fails(settings: Settings) -> Outcome:
    outcome = Outcome(skipped=["nothing: no reason"])
    outcome.counts["things tried"] += 1_234
    if settings.seed != 5:
        outcome.failures.append(Failure(f"seed {settings.seed} is not 5", "3/4"))
    return outcome


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [
        Part("fails", "The seed is 5.", _fails),
        Part("empty", "It is found.", lambda _: Outcome()),
    ]
    monkeypatch.setattr(cli, "parts", lambda: {part.name: part for part in made})


@pytest.mark.usefixtures("known")
def test_a_failure_is_printed_with_its_command_and_ends_with_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["fails", "--ci", "--seed", "7"]) == 1
    printed = capsys.readouterr()
    assert "fails  things tried  1,234" in printed.out
    assert "python -m torture fails --ci --seed 7 --replay '3/4'" in printed.err


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    "arguments",
    [
        ["none"],
        ["--replay", "x"],
        ["empty", "--replay", "x"],
        ["fails", "--time-limit", "-1"],
        ["fails", "--ci", "--long"],
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
