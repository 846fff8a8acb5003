"""Answers of a damaged store: the truth, or an error that names a file of the store."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import lsmkv
from lsmkv.errors import BackgroundError, CorruptionError, NotAStoreError, UnsupportedFormatError
from lsmkv.options import FilterResidency
from torture.corruption.samples import SMALL
from torture.framework.changes import Contents

ALLOWED: tuple[type[Exception], ...] = (
    CorruptionError,
    UnsupportedFormatError,
    NotAStoreError,
    BackgroundError,
    OSError,
)
"""Errors that damage may raise."""


@dataclass(slots=True)
class Answers:
    """Checks answers of a store against the contents that it may have.

    Attributes:
        allowed: the contents that agree with all answers so far.
        failures: wrong answers and wrong errors.
        errors: allowed errors.
        found_whole: whether ``verify`` found no problem; None if it was not called.
    """

    directory: Path
    allowed: list[Contents]
    failures: list[str] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    found_whole: bool | None = None

    @property
    def is_silent(self) -> bool:
        """Whether neither an error nor ``verify`` reported damage."""
        return not self.errors and self.found_whole is not False

    def raised(self, error: Exception, doing: str) -> None:
        """Note an error: its class must be allowed, its file the store's."""
        if not isinstance(error, ALLOWED):
            self.failures.append(f"{doing} raised {type(error).__name__}: {error}")
        elif str(self.directory) not in str(error):
            self.failures.append(f"{doing} raised an error that names no file: {error!r}")
        else:
            self.errors.append(error)

    def settle(self, fits: list[Contents], doing: str, answer: object) -> None:
        """Keep the contents that agree with an answer; note a failure if none do."""
        if fits:
            self.allowed = fits
        else:
            self.failures.append(f"{doing} gave {str(answer)[:300]}, which nothing allowed holds")

    def read(self, db: lsmkv.DB, keys: list[bytes]) -> None:
        """Look up every key, and scan both ways."""
        for key in keys:
            try:
                value = db.get(key)
            except Exception as error:
                self.raised(error, f"get({key!r})")
            else:
                fits = [state for state in self.allowed if state.get(key) == value]
                self.settle(fits, f"get({key!r})", value)
        for reverse in (False, True):
            self._scan(db, reverse)

    def _scan(self, db: lsmkv.DB, reverse: bool) -> None:
        doing = "a backward scan" if reverse else "a scan"
        found: list[tuple[bytes, bytes]] = []
        ended = False
        try:
            for item in db.items(reverse=reverse):
                found.append(item)
            ended = True
        except Exception as error:
            self.raised(error, doing)
        fits = []
        for state in self.allowed:
            expected = sorted(state.items(), reverse=reverse)
            if found == (expected if ended else expected[: len(found)]):
                fits.append(state)
        self.settle(fits, doing, found)

    def verify(self, db: lsmkv.DB) -> None:
        """Call ``verify``, which must find a problem if reading raised an error."""
        try:
            report = db.verify()
        except Exception as error:
            self.failures.append(f"verify raised {type(error).__name__}: {error}")
            return
        self.found_whole = report.ok
        if report.ok and self.errors:
            self.failures.append(f"verify found no problem, but reading raised {self.errors[0]!r}")


def read_store(
    directory: Path, allowed: list[Contents], keys: list[bytes], residency: FilterResidency
) -> Answers:
    """Open a store read-only; read, verify and refresh it."""
    answers = Answers(directory, allowed)
    try:
        db = open_sample(directory, residency, read_only=True)
    except Exception as error:
        answers.raised(error, "open")
        answers.counts["refused to open"] += 1
        return answers
    with db:
        answers.read(db, keys)
        answers.counts["looked up"] += len(keys)
        answers.verify(db)
        try:
            db.refresh()
            value = db.get(keys[len(keys) // 2])
        except Exception as error:
            answers.raised(error, "refresh")
        else:
            fits = [state for state in answers.allowed if state.get(keys[len(keys) // 2]) == value]
            answers.settle(fits, "get after refresh", value)
    return answers


def open_sample(directory: Path, residency: FilterResidency, *, read_only: bool) -> lsmkv.DB:
    return lsmkv.open(
        directory,
        SMALL,
        create_if_missing=False,
        read_only=read_only,
        filter_residency=residency,
        block_cache_size_bytes=1 << 20,
    )
