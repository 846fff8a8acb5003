"""Reports of a torture run: for the terminal, for a document, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from bench.harness import document
from bench.harness.environment import environment
from torture.framework.part import Outcome, Part, Settings

SECTION: Final = "torture"
_MOST_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Result:
    """A part and its outcome."""

    part: Part
    settings: Settings
    outcome: Outcome
    seconds: float


def command(part: str, settings: Settings, replay: str | None = None) -> str:
    """The command that repeats a part, or one failure of it."""
    words = ["python -m torture", part]
    if settings.scale.value != "short":
        words.append(f"--{settings.scale.value}")
    words.append(f"--seed {settings.seed}")
    if settings.disturb:
        words.append(f"--disturb {','.join(settings.disturb)}")
    if replay:
        words.append(f"--replay '{replay}'")
    return " ".join(filter(None, words))


def summary(result: Result) -> str:
    """The result of a part in one line."""
    outcome = result.outcome
    failures = len(outcome.failures)
    ended = f"{failures} FAILURES" if failures else "no failure"
    return f"{result.part.name}: {ended}, {result.seconds:.0f} s"


def table(results: Sequence[Result]) -> str:
    """All counts, as a table for the terminal."""
    rows = [
        (result.part.name, what, f"{count:,}")
        for result in results
        for what, count in result.outcome.counts.items()
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    return "\n".join(
        f"{part:<{widths[0]}}  {what:<{widths[1]}}  {count:>{widths[2]}}"
        for part, what, count in rows
    )


def remarks(result: Result) -> list[str]:
    """Skipped things and notes, one line each."""
    name, outcome = result.part.name, result.outcome
    skipped = [f"{name}: skipped: {reason}" for reason in outcome.skipped]
    return skipped + [f"{name}: {note}" for note in outcome.notes]


def failures(result: Result) -> list[str]:
    """Each failure, with the command that repeats it."""
    found = result.outcome.failures
    lines = [
        f"{failure.what}\n    {command(result.part.name, result.settings, failure.replay)}"
        for failure in found[:_MOST_SHOWN]
    ]
    if len(found) > _MOST_SHOWN:
        lines.append(f"... and {len(found) - _MOST_SHOWN} more")
    return lines


def header(given: str, settings: Settings) -> dict[str, Any]:
    """Command, seed, scale and environment of the run."""
    return {
        "command": given,
        "seed": settings.seed,
        "scale": settings.scale.value,
        "environment": environment(str(settings.directory)),
    }


def _tried(counts: Mapping[str, int]) -> str:
    """All counts, grouped by the part of their names before the colon."""
    groups: dict[str, list[str]] = {}
    for name, count in counts.items():
        group, colon, what = name.rpartition(": ")
        groups.setdefault(group + colon, []).append(f"{count:,} {what}")
    return "; ".join(group + ", ".join(told) for group, told in groups.items())


def markdown(how: dict[str, Any], results: Sequence[Result]) -> str:
    """The run as a section of a document."""
    lines = [
        f"Command: `{how['command']}`. Scale {how['scale']}. {document.provenance(how)}",
        "",
        "| part | promise | failures | s |",
        "|---|---|---:|---:|",
    ]
    lines += [
        f"| {result.part.name} | {result.part.promise} "
        f"| {len(result.outcome.failures)} | {result.seconds:.0f} |"
        for result in results
    ]
    lines += ["", "| part | tried |", "|---|---|"]
    lines += [f"| {result.part.name} | {_tried(result.outcome.counts)} |" for result in results]
    said = [line for result in results for line in remarks(result)]
    said += [line.replace("\n   ", "") for result in results for line in failures(result)]
    if said:
        lines += ["", *(f"- {line}" for line in said)]
    return "\n".join(lines) + "\n"


def as_data(how: dict[str, Any], results: Sequence[Result]) -> dict[str, Any]:
    return {
        **how,
        "parts": [
            {
                "name": result.part.name,
                "promise": result.part.promise,
                "seconds": round(result.seconds, 1),
                "time_limit_s": result.settings.time_limit_s,
                "counts": dict(result.outcome.counts),
                "failures": [
                    {**asdict(f), "command": command(result.part.name, result.settings, f.replay)}
                    for f in result.outcome.failures
                ],
                "skipped": result.outcome.skipped,
                "notes": result.outcome.notes,
            }
            for result in results
        ],
    }
