"""Installs lsmkv as its users do, and tries it.  ``python -m tools.check_install``

It makes a source distribution of the checkout, and builds wheels from that: each where there is only what
the build asks for.  Each wheel is installed where there is nothing else, and used from outside of the
checkout.  A compiled wheel is built for this Python, and quickly, without optimisation, for the others
that are installed here; a pure one is for all of them.  Everything has to write the same bytes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tools import source_distribution
from tools.builds import CHECKOUT, VERSIONS, BuildError, files_of_checkout, interpreter
from tools.mypyc_mend import COMPILED as MODULES

COMPILED: Final = {"LSMKV_PURE": "0"}
COMPILED_QUICKLY: Final = {"LSMKV_PURE": "0", "LSMKV_OPTIMISE": "0"}
PURE: Final = {"LSMKV_PURE": "1"}
_THIS: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
_STYLE: Final = "lsmkv/explore/web/src/base.css"  # of reports, too
_WITHOUT_HARNESS: Final = "pip install 'lsmkv[bench]'\n"
_MOST_MIB: Final = 250  # of what counting needs
_WITHOUT_EXTRA: Final = 'pip install "lsmkv[cli]"\n'
_QUOTED_LINES: Final = 30
_FREEZER: Final = (
    "pyinstaller>=6.0"  # a test tool alone: GPL, with an exception for what it freezes
)
# What a user's program does: also what is imported late, and a compaction that would go to a helper
# process, which a frozen program must not start: it would start itself again.
_PROGRAM: Final = """
import logging, sys
import lsmkv, lsmkv.aio, lsmkv.dbm, lsmkv.typed

logging.basicConfig(level=logging.INFO, filename=sys.argv[1] + ".log")
with lsmkv.open(sys.argv[1], process_job_size_bytes=0, write_buffer_size_bytes=1 << 20) as db:
    for number in range(60_000):
        db[b"%08d" % number] = b"value %d" % number * 5
    db.compact_range(force=True)
    print(len(db), db.get(b"00000077") is not None, db.get(b"none"))
    print(db.explain(b"none").outcome, db.verify().ok, db._repr_html_()[:6])
    helper = db._engine.background.compactor.runner
with lsmkv.open(sys.argv[1], read_only=True) as db:
    with db.snapshot() as snapshot, db.cursor() as cursor:
        cursor.seek(b"00000077")
        print(cursor.key)
print("frozen" if getattr(sys, "frozen", False) else "not frozen", helper)
"""
_SAID: Final = "60000 True None\nabsent True <table\nb'00000077'\nfrozen None\n"


class CheckError(Exception):
    """What users would get is not what it should be."""


def run(
    *command: object, cwd: Path, settings: Mapping[str, str] | None = None, fails: bool = False
) -> str:
    """What a command prints; ``fails``: whether it has to fail."""
    foreign = ("PYTHON", "LSMKV_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**kept, **(settings or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if bool(done.returncode) != fails:
        printed = "\n".join(done.stdout.splitlines()[-_QUOTED_LINES:])
        raise CheckError(f"exit status {done.returncode}: {' '.join(map(str, command))}\n{printed}")
    return done.stdout


def check_same(what: str, found: set[str], wanted: set[str]) -> None:
    """Raise unless both are the same."""
    if found != wanted:
        lacking, other = sorted(wanted - found), sorted(found - wanted)
        raise CheckError(f"{what} lacks {lacking} and has besides {other}")


def made_distribution(folder: Path) -> Path:
    """The source distribution: the checkout, and the C of the compiled modules."""
    archive = source_distribution.make(folder)
    with tarfile.open(archive) as opened:
        names = {member.name.partition("/")[2] for member in opened if member.isfile()}
    made = {name for name in names if name.startswith(("lsmkv.egg-info/", "csrc/"))}
    made |= {"PKG-INFO", "setup.cfg"}
    check_same("the source distribution", names - made, set(files_of_checkout()))
    loaders = {f"csrc/lsmkv/{name}.c" for name in MODULES}
    check_same("its C code", {n for n in names if n.startswith("csrc/lsmkv/")}, loaders)
    return archive


class Environment:
    """An empty environment of one Python."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        run(python, "-m", "venv", folder / "venv", cwd=folder)
        self.bin = folder / "venv" / "bin"

    def pip(self, *arguments: object, settings: Mapping[str, str] | None = None) -> str:
        pip = (self.bin / "python", "-m", "pip", "--disable-pip-version-check")
        return run(*pip, *arguments, cwd=self.folder, settings=settings)

    def wheel(self, archive: Path, settings: Mapping[str, str]) -> Path:
        """Build a wheel, which pip does in yet another environment."""
        with tarfile.open(archive) as opened:
            opened.extractall(self.folder / "source", filter="data")
        (source,) = (self.folder / "source").iterdir()
        arguments = ("wheel", "--verbose", "--no-deps", "--wheel-dir", self.folder, source)
        said = self.pip(*arguments, settings=settings)
        if "would be ignored" in said:
            raise CheckError(f"setuptools warns:\n{said}")
        if re.search(r"^ *(Collecting|Requirement already satisfied:) mypy\b", said, re.MULTILINE):
            raise CheckError(f"the source distribution asks for mypy:\n{said}")
        (wheel,) = self.folder.glob("*.whl")
        check_wheel(wheel, settings is PURE)
        return wheel

    def check(self, wheel: Path, build: str) -> dict[str, str]:
        """Install a wheel, use it, and return the hashes of what it writes."""
        self.pip("install", "--quiet", wheel)
        lsmkv = self.bin / "lsmkv"
        version = run(lsmkv, "--version", cwd=self.folder)
        if f" ({build}, Python " not in version or "not compiled" in version:
            raise CheckError(f"{wheel.name} is not {build}: {version}")
        without = run(lsmkv, "put", "store", "a", "1", cwd=self.folder, fails=True)
        if not without.endswith(_WITHOUT_EXTRA):
            raise CheckError(f"without the extra cli lsmkv says: {without}")
        (self.folder / "stores").mkdir()
        program = Path(CHECKOUT, "tools", "write_stores.py")
        python = (self.bin / "python", "-I", program)
        hashes = json.loads(run(*python, self.folder / "stores", cwd=self.folder))
        self.pip("install", "--quiet", f"{wheel}[cli]")
        run(lsmkv, "put", "store", "a", "1", cwd=self.folder)
        if run(lsmkv, "get", "store", "a", cwd=self.folder) != "1\n":
            raise CheckError("lsmkv get does not print what lsmkv put was given")
        in_helper = "background=process", "process_job_size_bytes=0", "filter_memory_bytes=1000"
        settings = [part for setting in in_helper for part in ("--set", setting)]
        run(lsmkv, "compact", "store", "--force", *settings, cwd=self.folder)
        return {str(name): str(value) for name, value in hashes.items()}

    def measure(self, wheel: Path) -> None:
        """Install the benchmark harness, and count what filters save, with no chart."""
        count = (
            self.bin / "lsmkv",
            "bench",
            "saved-io",
            "--quick",
            "--minute",
            "--entries",
            "2000",
        )
        without = run(*count, cwd=self.folder, fails=True)
        if not without.endswith(_WITHOUT_HARNESS):
            raise CheckError(f"without the extra bench lsmkv says: {without}")
        began_s = time.monotonic()
        self.pip("install", "--quiet", f"{wheel}[bench]")
        took_s = time.monotonic() - began_s
        files = [path for path in (self.folder / "venv").rglob("*") if path.is_file()]
        mib = sum(path.stat().st_size for path in files) / 1024**2
        print(f"lsmkv[bench]: {mib:.0f} MiB, installed in {took_s:.0f} s", flush=True)
        if mib > _MOST_MIB:
            raise CheckError(f"lsmkv[bench] takes {mib:.0f} MiB, more than {_MOST_MIB}")
        said = run(*count, cwd=self.folder)
        report = (self.folder / "out" / "saved-io" / "report.html").read_text("utf-8")
        for text in (said, report):
            if "pip install" not in text or "lsmkv[bench-charts]" not in text:
                raise CheckError(
                    f"without matplotlib a run does not say how to have charts: {text}"
                )

    def freeze(self) -> None:
        """Freeze a program that uses the installed lsmkv, and run it elsewhere."""
        self.pip("install", "--quiet", _FREEZER)
        program = self.folder / "program.py"
        program.write_text(_PROGRAM, "utf-8")
        work, made = self.folder / "work", self.folder / "frozen"
        places = ("--workpath", work, "--specpath", work, "--distpath", made)
        run(self.bin / "pyinstaller", "--log-level", "WARN", *places, program, cwd=self.folder)
        said = run(made / "program" / "program", self.folder / "frozen-store", cwd=made)
        if said != _SAID:
            raise CheckError(f"a frozen program says {said!r}, not {_SAID!r}")


def name_in_wheel(name: str) -> str | None:
    """What a wheel calls a file of the checkout; None for what is in no wheel."""
    if name.startswith("lsmkv/explore/web/"):
        return name if name == _STYLE else None
    if name.startswith("bench/") and not name.startswith("bench/examples/"):
        return None if name.endswith(".md") else f"lsmkv_{name}"
    return name if name.startswith("lsmkv/") else None


def check_wheel(wheel: Path, pure: bool) -> None:
    """Raise unless a wheel holds the package: all of it, and nothing else."""
    tag = "py3-none-any" if pure else f"{sys.platform}_"
    if tag not in wheel.name:
        raise CheckError(f"{wheel.name} is for another platform than {tag}")
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if ".dist-info/" not in name}
    wanted = set(filter(None, map(name_in_wheel, files_of_checkout())))
    extensions = {name for name in names if name.endswith(".so")}
    check_same(wheel.name, names - extensions, wanted)
    libraries = {name for name in extensions if "__mypyc" in name}
    modules = {name.partition(".")[0] for name in extensions - libraries}
    compiled = set() if pure else {f"lsmkv/{name}" for name in MODULES}
    check_same(f"{wheel.name}, compiled,", modules, compiled)


def check_all(folder: Path, pythons: dict[str, str]) -> None:
    """Build and try everything, as many at a time as there are cores."""
    archive = made_distribution(folder)
    pure = Environment(folder / "pure", sys.executable).wheel(archive, PURE)

    def compiled(version: str) -> dict[str, str]:
        environment = Environment(folder / f"compiled-{version}", pythons[version])
        settings = COMPILED if version == _THIS else COMPILED_QUICKLY
        return checked(environment, environment.wheel(archive, settings), "compiled")

    def interpreted(version: str) -> dict[str, str]:
        environment = Environment(folder / f"pure-{version}", pythons[version])
        return checked(environment, pure, "interpreted")

    def checked(environment: Environment, wheel: Path, build: str) -> dict[str, str]:
        hashes = environment.check(wheel, build)
        if environment.folder.name.endswith(f"-{_THIS}"):
            environment.measure(wheel)
            environment.freeze()
        return hashes

    kinds: list[tuple[str, Callable[[str], dict[str, str]]]] = []
    kinds += [(version, compiled) for version in pythons]
    kinds += [(version, interpreted) for version in pythons]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [(version, kind, pool.submit(kind, version)) for version, kind in kinds]
        written = []
        for version, kind, job in jobs:
            written.append(job.result())
            print(f"Python {version}, {kind.__name__}: installed and used", flush=True)
    for hashes in written:
        differing = [name for name in written[0] if hashes[name] != written[0][name]]
        if differing:
            raise CheckError(f"files that are not the same in all builds: {differing}")


def main() -> int:
    """Check with each Python that is installed here; return the exit status."""
    found = {version: interpreter(version) for version in VERSIONS}
    found[_THIS] = sys.executable
    try:
        with tempfile.TemporaryDirectory(prefix="lsmkv-install-") as folder:
            check_all(Path(folder), {v: python for v, python in found.items() if python})
    except (BuildError, CheckError) as error:
        print(error, file=sys.stderr)
        return 1
    for version, python in found.items():
        if python is None:
            print(f"Python {version}: not installed here, not tried")
    return 0


if __name__ == "__main__":
    sys.exit(main())
