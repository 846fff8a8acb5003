"""``python -m torture``: runs the parts one after another and reports their failures.

The exit status is 1 if a part failed.  Each failure is printed with the command that repeats it.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
import textwrap
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.harness import document
from bench.harness.environment import build
from torture.framework import report
from torture.framework.disturbance import KINDS as DISTURBANCES
from torture.framework.part import Failure, Outcome, Part, Scale, Settings
from torture.framework.parts import parts

DEFAULT_SEED: Final = 1970
TIME_LIMITS_S: Final = {Scale.CI: 60.0, Scale.SHORT: 120.0, Scale.LONG: 3600.0}
"""Default time limit of each part."""

_IN_MEMORY: Final = "/dev/shm"


def parser(known: Mapping[str, Part]) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m torture",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Torture tests of lsmkv.  Each part tries to break one promise of the store, for "
        "example\nby power failures, failing disks or damaged files.",
        epilog=_explained(known),
    )
    made.add_argument(
        "parts", nargs="*", metavar="PART", help="parts to run, of those below (default: all)"
    )
    scale = made.add_mutually_exclusive_group()
    for wanted, amount in (
        (Scale.CI, "try little: all parts take a few minutes (default: about ten minutes)"),
        (Scale.LONG, "try as much as possible: all parts take hours"),
    ):
        scale.add_argument(
            f"--{wanted.value}", dest="scale", action="store_const", const=wanted, help=amount
        )
    made.set_defaults(scale=Scale.SHORT)
    made.add_argument(
        "--seed",
        type=int,
        default=DEFAULT_SEED,
        help="seed of all random choices (default: %(default)s)",
    )
    made.add_argument(
        "--time-limit",
        type=float,
        metavar="S",
        help="end each part after about S seconds (default: "
        + ", ".join(f"{limit:.0f} {scale.value}" for scale, limit in TIME_LIMITS_S.items())
        + ")",
    )
    made.add_argument(
        "--replay",
        metavar="WHAT",
        help="repeat one failure of PART: a failure is printed with the command to repeat it",
    )
    made.add_argument(
        "--disturb",
        type=lambda text: tuple(filter(None, text.split(","))),
        default=(),
        metavar="HOW",
        help="disturb the processes of the parts at random moments: a list, with commas, of "
        f"{', '.join(DISTURBANCES)} (garbage collections, switches of threads, signals)",
    )
    made.add_argument("--out", metavar="DIR", help="write torture.json and torture.md to DIR")
    made.add_argument(
        "--into",
        metavar="FILE",
        help="write the results to the section <!-- bench torture --> of FILE",
    )
    made.add_argument(
        "--work",
        metavar="DIR",
        help=f"make stores in DIR (default: {_IN_MEMORY}, or else the temporary directory)",
    )
    return made


def _explained(known: Mapping[str, Part]) -> str:
    """The parts and their promises, and how to read the output."""
    lines = ["parts, each with the promise that it tries to break:"]
    for name, part in known.items():
        lines.append(f"  {name}")
        lines += textwrap.wrap(part.promise, 86, initial_indent=" " * 6, subsequent_indent=" " * 6)
    lines += [
        "",
        "The exit status is 1 if a promise was broken, and 2 if the command line is wrong.",
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    known = parts()
    reader = parser(known)
    chosen = reader.parse_args(given)
    unknown = [name for name in chosen.parts if name not in known]
    if unknown:
        reader.error(f"no part {unknown[0]!r}; there are {', '.join(known)}")
    if chosen.replay is not None and len(chosen.parts) != 1:
        reader.error("--replay needs exactly one PART, the one that failed")
    if chosen.time_limit is not None and chosen.time_limit < 0:
        reader.error(f"--time-limit {chosen.time_limit:g}: must be 0 or more seconds")
    wanted = [known[name] for name in chosen.parts or known]
    _check_disturbances(reader, chosen.disturb, wanted)
    results = [_run(part, chosen) for part in wanted]
    outcome = results[0].outcome
    if chosen.replay is not None and not (outcome.counts or outcome.failures or outcome.skipped):
        reader.error(f"--replay {chosen.replay}: {chosen.parts[0]} has nothing of that name")
    return _report(results, chosen, shlex.join(["python", "-m", "torture", *given]))


def _check_disturbances(
    reader: argparse.ArgumentParser, disturbances: Sequence[str], wanted: Sequence[Part]
) -> None:
    """Refuse unknown disturbances, and parts that cannot be disturbed."""
    for name in disturbances:
        if name not in DISTURBANCES:
            reader.error(f"--disturb {name}: there are {', '.join(DISTURBANCES)}")
    allowed = [part.name for part in parts().values() if part.can_be_disturbed]
    for part in wanted:
        if disturbances and not part.can_be_disturbed:
            reader.error(f"--disturb: {part.name} cannot be, only {', '.join(allowed)} can")


def _run(part: Part, chosen: argparse.Namespace) -> report.Result:
    """Run a part in a directory of its own."""
    limit = TIME_LIMITS_S[chosen.scale] if chosen.time_limit is None else chosen.time_limit
    print(f"{part.name}: up to {limit:.0f} s ({build()}) ...", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lsmkv-torture-", dir=_work(chosen.work)) as directory:
        settings = Settings(
            chosen.scale, limit, chosen.seed, Path(directory), chosen.replay, chosen.disturb
        )
        try:
            outcome = part.run(settings)
        except Exception:  # the other parts must run too
            outcome = Outcome(failures=[Failure(traceback.format_exc(), chosen.replay or "")])
    result = report.Result(part, settings, outcome, time.monotonic() - started)
    print(report.summary(result), flush=True)
    return result


def _work(given: str | None) -> str | None:
    if given is None and os.path.isdir(_IN_MEMORY) and os.access(_IN_MEMORY, os.W_OK):
        return _IN_MEMORY
    return given


def _report(results: Sequence[report.Result], chosen: argparse.Namespace, given: str) -> int:
    print(f"\n{report.table(results)}\n")
    for result in results:
        for line in report.remarks(result):
            print(line)
    failed = [line for result in results for line in report.failures(result)]
    for line in failed:
        print(f"FAILED: {line}", file=sys.stderr)
    how = report.header(given, results[0].settings)
    if chosen.out is not None:
        os.makedirs(chosen.out, exist_ok=True)
        data = json.dumps(report.as_data(how, results), indent=2) + "\n"
        Path(chosen.out, "torture.json").write_text(data, encoding="utf-8")
        Path(chosen.out, "torture.md").write_text(report.markdown(how, results), encoding="utf-8")
    if chosen.into is not None:
        document.insert(chosen.into, report.SECTION, report.markdown(how, results))
    return 1 if failed else 0
