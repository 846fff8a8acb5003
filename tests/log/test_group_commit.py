"""Group commit alone: leaders, followers, and interrupts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import partial

import pytest

from lsmkv.log.group_commit import GroupCommit
from threaded_stores import wait_until

HUNG_S = 60.0  # only stops a test that hangs


def led(group: GroupCommit) -> GroupCommit:
    """The group, led by the test until it calls ``stop_leading``."""
    assert group.join(1)
    group.leading.acquire()
    return group


def stop_leading(group: GroupCommit) -> None:
    group.leading.release()
    group.hand_over()


class Writers:
    """Threads that join a group and note their outcomes."""

    def __init__(self, group: GroupCommit) -> None:
        self.group = group
        self.outcomes: list[tuple[int, bool]] = []
        self.threads: list[threading.Thread] = []

    def add(self, end: int) -> None:
        """Start a writer that waits for ``end`` bytes; return once it waits."""
        count = len(self.group.followers)

        def wait() -> None:
            self.outcomes.append((end, self.group.join(end)))

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        self.threads.append(thread)
        wait_until(lambda: len(self.group.followers) > count)

    def have_come(self, count: int) -> bool:
        return len(self.outcomes) == count

    def finish(self) -> None:
        for thread in self.threads:
            thread.join(HUNG_S)
            assert not thread.is_alive()


def test_the_first_writer_leads_and_synced_bytes_need_no_wait() -> None:
    group = GroupCommit(100)
    assert not group.join(100)
    assert group.join(101)


def test_a_sync_serves_every_follower_that_it_covers() -> None:
    group = led(GroupCommit(0))
    writers = Writers(group)
    for end in (10, 20, 30):
        writers.add(end)
    assert group.note_synced(30) == 4
    stop_leading(group)
    writers.finish()
    assert sorted(writers.outcomes) == [(10, False), (20, False), (30, False)]
    assert group.join(31)  # nobody has the lead


def test_the_first_that_is_not_served_leads_next() -> None:
    group = led(GroupCommit(0))
    writers = Writers(group)
    for end in (10, 20, 30):
        writers.add(end)
    assert group.note_synced(10) == 2
    group.hand_over()  # the new leader does not come: the test leads in its place
    wait_until(partial(writers.have_come, 2))
    assert sorted(writers.outcomes) == [(10, False), (20, True)]
    assert group.note_synced(30) == 2
    stop_leading(group)
    writers.finish()
    assert (30, False) in writers.outcomes


def test_after_a_sync_that_failed_the_others_lead_one_by_one() -> None:
    group = led(GroupCommit(0))
    writers = Writers(group)
    writers.add(10)
    writers.add(20)
    for count in (1, 2):
        group.hand_over()
        wait_until(partial(writers.have_come, count))
    assert writers.outcomes == [(10, True), (20, True)]
    writers.finish()


def test_a_requested_lead_is_given_even_if_everything_is_synced() -> None:
    group = led(GroupCommit(0))
    writers = Writers(group)
    count = len(group.followers)
    closing = threading.Thread(target=group.lead, daemon=True)
    closing.start()
    wait_until(lambda: len(group.followers) > count)
    group.note_synced(1 << 40)
    group.hand_over()
    closing.join(HUNG_S)
    assert not closing.is_alive()
    writers.add(1 << 41)  # it waits, for the lead is taken
    stop_leading(group)
    writers.finish()


# Lost leads and interrupted wakes


def test_a_writer_leads_if_the_leader_was_interrupted_before_leading() -> None:
    group = GroupCommit(0)
    assert group.join(1)  # and is interrupted before it leads
    assert group.join(2)


def test_an_interrupted_next_leader_is_replaced() -> None:
    group = led(GroupCommit(0))
    writers = Writers(group)
    writers.add(10)
    gone = group.followers[0]
    writers.add(20)
    group.followers.insert(0, type(gone)(5))  # an interrupted thread has left this behind
    stop_leading(group)
    writers.finish()
    assert (10, True) in writers.outcomes or (20, True) in writers.outcomes


def test_a_served_follower_returns_even_if_nobody_wakes_it() -> None:
    group = led(GroupCommit(0))
    writers = Writers(group)
    writers.add(10)
    group.note_synced(10)
    writers.finish()
    assert writers.outcomes == [(10, False)]
    stop_leading(group)
    assert group.join(11)


# Interrupts


def test_an_interrupted_writer_leaves_the_queue() -> None:
    group = led(GroupCommit(0))

    def interrupt() -> None:
        wait_until(lambda: len(group.followers) == 1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        group.join(10)
    thread.join(HUNG_S)
    assert group.followers == []
    stop_leading(group)
    assert group.join(2)  # the lead was not left with the one that has gone


class Interrupted:
    """A writer's own lock: calls ``meanwhile`` during the wait, then interrupts it."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.meanwhile = meanwhile
        self.is_held = False

    def acquire(self, *, timeout: float = -1) -> None:
        if self.is_held:
            self.meanwhile()
            raise KeyboardInterrupt
        self.is_held = True

    def release(self) -> None:
        self.is_held = False


def join_interrupted(
    monkeypatch: pytest.MonkeyPatch, group: GroupCommit, end: int, meanwhile: Callable[[], None]
) -> None:
    """Join, and be interrupted after ``meanwhile``."""
    with monkeypatch.context() as patch:
        lock = threading.Lock

        def once() -> Interrupted:
            patch.setattr(threading, "Lock", lock)
            return Interrupted(meanwhile)

        patch.setattr(threading, "Lock", once)
        with pytest.raises(KeyboardInterrupt):
            group.join(end)


def test_an_interrupt_of_the_next_leader_passes_the_lead_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = led(GroupCommit(0))
    join_interrupted(monkeypatch, group, 10, group.hand_over)
    assert group.join(2)


def test_an_interrupt_of_a_served_follower_still_wakes_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = led(GroupCommit(0))
    writers = Writers(group)

    def serve() -> None:
        writers.add(20)
        writers.add(30)
        assert group.note_synced(30) == 4
        group.hand_over()

    join_interrupted(monkeypatch, group, 10, serve)
    writers.finish()
    assert sorted(writers.outcomes) == [(20, False), (30, False)]


def test_an_interrupt_between_a_sync_and_the_waking_harms_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = led(GroupCommit(0))
    writers = Writers(group)

    def note() -> None:
        writers.add(20)
        assert group.note_synced(20) == 3

    join_interrupted(monkeypatch, group, 10, note)
    stop_leading(group)
    writers.finish()
    assert writers.outcomes == [(20, False)]


# Waiting for followers


def test_the_last_follower_ends_the_wait() -> None:
    group = led(GroupCommit(0))
    group.group_size = 3
    writers = Writers(group)
    leader = threading.Thread(target=group.wait_for_followers, args=(2 * HUNG_S,), daemon=True)
    leader.start()
    writers.add(10)
    assert leader.is_alive()
    writers.add(20)
    leader.join(HUNG_S)
    assert not leader.is_alive()
    group.note_synced(20)
    group.hand_over()
    writers.finish()


def test_a_group_that_is_complete_twice_ends_one_wait() -> None:
    group = led(GroupCommit(0))
    group._awaited_size = 2
    writers = Writers(group)
    writers.add(10)
    gone = group.followers.pop()  # as if it had been interrupted
    writers.add(20)
    gone.woken.release()
    group.note_synced(20)
    group.hand_over()
    writers.finish()
    assert len(writers.outcomes) == 2


class LateLock:
    """A leader's lock: its wait times out just before the last follower comes."""

    def __init__(self, last_comes: Callable[[], None]) -> None:
        self.last_comes = last_comes
        self.lock = threading.Lock()
        self.lock.acquire()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if blocking:
            self.last_comes()
            return False
        return self.lock.acquire(blocking=False)

    def release(self) -> None:
        self.lock.release()


def test_a_follower_that_comes_too_late_does_not_end_the_next_wait() -> None:
    group = led(GroupCommit(0))
    group.group_size = 2
    writers = Writers(group)
    late = LateLock(lambda: writers.add(10))
    group._group_complete = late  # type: ignore[assignment]
    group.wait_for_followers(HUNG_S)
    assert late.lock.locked()
    group.note_synced(10)
    group.hand_over()
    writers.finish()
