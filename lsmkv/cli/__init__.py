"""The ``lsmkv`` command: a store from the shell.

It needs the extra ``lsmkv[cli]``; this file does without, and says so.
"""

from __future__ import annotations

import io
import os
import sys

from lsmkv.cli.version import version


def _open_closed_streams() -> None:
    """Replace closed standard streams; else files get their numbers.  Using one is an error."""
    for name, mode, flags in (
        ("stdin", "r", os.O_WRONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            stream = open(os.open(os.devnull, flags), mode, encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, stream)


def main() -> None:
    try:
        _run()
    except KeyboardInterrupt:  # before there is the group of commands, which ends others so
        sys.exit(130)


def _run() -> None:
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Paths may not be UTF-8, and terminals may not show all of it.
            stream.reconfigure(errors="backslashreplace")
    try:
        import rich  # noqa: F401

        from lsmkv.cli.commands import cli
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        if sys.argv[1:] == ["--version"]:
            print(version())
            return
        sys.exit(
            f"Error: the command line needs {error.name}, which is not installed: "
            'pip install "lsmkv[cli]"'
        )
    cli(prog_name="lsmkv")
