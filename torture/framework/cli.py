"""``python -m torture``: runs the parts one after another, and says what they found.

The exit status is 1 if anything failed.  Each failure is printed with the command that does it again.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from reports import document
from reports.environment import build
from torture.framework import report
from torture.framework.disturbance import KINDS as DISTURBANCES
from torture.framework.part import Failure, Outcome, Part, Scale, Settings
from torture.framework.parts import parts

DEFAULT_SEED: Final = 1970
TIME_LIMITS_S: Final = {Scale.CI: 60.0, Scale.SHORT: 120.0, Scale.LONG: 3600.0}
"""For each part."""

_IN_MEMORY: Final = "/dev/shm"


def parser(names: Sequence[str]) -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m torture",
        description="Tries to make lsmkv lose data, lie or leak.  About ten minutes in all; less "
        "with --ci, hours with --long.",
    )
    made.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"which parts to run: {', '.join(names)}; default: all",
    )
    scale = made.add_mutually_exclusive_group()
    for wanted, said in ((Scale.CI, "a few minutes in all"), (Scale.LONG, "hours")):
        scale.add_argument(
            f"--{wanted.value}", dest="scale", action="store_const", const=wanted, help=said
        )
    made.set_defaults(scale=Scale.SHORT)
    made.add_argument("--seed", type=int, default=DEFAULT_SEED, help="default: %(default)s")
    made.add_argument(
        "--time-limit",
        type=float,
        metavar="S",
        help="seconds for each part; default: "
        + ", ".join(f"{limit:.0f} ({scale.value})" for scale, limit in TIME_LIMITS_S.items()),
    )
    made.add_argument("--replay", metavar="WHAT", help="try one thing alone, of the one PART given")
    made.add_argument(
        "--disturb",
        type=lambda text: tuple(filter(None, text.split(","))),
        default=(),
        metavar="HOW",
        help=f"run parts while this goes on in their processes: some of {','.join(DISTURBANCES)}",
    )
    made.add_argument("--out", metavar="DIR", help="folder for torture.json and torture.md")
    made.add_argument(
        "--into", metavar="FILE", help="also replace the section <!-- bench torture --> of FILE"
    )
    made.add_argument(
        "--work",
        metavar="DIR",
        help=f"where stores are made; default: {_IN_MEMORY}, or else the temporary directory",
    )
    return made


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    known = parts()
    reader = parser(list(known))
    chosen = reader.parse_args(given)
    unknown = [name for name in chosen.parts if name not in known]
    if unknown:
        reader.error(f"no part {unknown[0]!r}; there are {', '.join(known)}")
    if chosen.replay is not None and len(chosen.parts) != 1:
        reader.error("--replay takes one PART, the one that failed")
    if chosen.time_limit is not None and chosen.time_limit < 0:
        reader.error(f"--time-limit {chosen.time_limit:g}: must be 0 or more seconds")
    wanted = [known[name] for name in chosen.parts or known]
    _check_disturbances(reader, chosen.disturb, wanted)
    results = [_run(part, chosen) for part in wanted]
    outcome = results[0].outcome
    if chosen.replay is not None and not (outcome.counts or outcome.failures or outcome.skipped):
        reader.error(f"--replay {chosen.replay}: {chosen.parts[0]} has nothing of that name")
    return _tell(results, chosen, shlex.join(["python", "-m", "torture", *given]))


def _check_disturbances(
    reader: argparse.ArgumentParser, disturbances: Sequence[str], wanted: Sequence[Part]
) -> None:
    """Refuse what is unknown, and parts that would not heed it."""
    for name in disturbances:
        if name not in DISTURBANCES:
            reader.error(f"--disturb {name}: there are {', '.join(DISTURBANCES)}")
    heeding = [part.name for part in parts().values() if part.can_be_disturbed]
    for part in wanted:
        if disturbances and not part.can_be_disturbed:
            reader.error(
                f"--disturb: {part.name} does not heed it; name one of {', '.join(heeding)}"
            )


def _run(part: Part, chosen: argparse.Namespace) -> report.Result:
    """One part, in a directory of its own."""
    limit = TIME_LIMITS_S[chosen.scale] if chosen.time_limit is None else chosen.time_limit
    print(f"{part.name}: up to {limit:.0f} s ({build()}) ...", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lsmkv-torture-", dir=_work(chosen.work)) as directory:
        settings = Settings(
            chosen.scale, limit, chosen.seed, Path(directory), chosen.replay, chosen.disturb
        )
        try:
            outcome = part.run(settings)
        except Exception:  # the other parts should run all the same
            outcome = Outcome(failures=[Failure(traceback.format_exc(), chosen.replay or "")])
    result = report.Result(part, settings, outcome, time.monotonic() - started)
    print(report.summary(result), flush=True)
    return result


def _work(given: str | None) -> str | None:
    if given is None and os.path.isdir(_IN_MEMORY) and os.access(_IN_MEMORY, os.W_OK):
        return _IN_MEMORY
    return given


def _tell(results: Sequence[report.Result], chosen: argparse.Namespace, given: str) -> int:
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
