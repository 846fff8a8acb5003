"""The ``lsmkv`` command: a store from the shell.

``keys`` and ``records`` say how bytes are written as text, ``output`` how results are shown,
``group`` how commands end; the other modules hold the commands.
"""

from __future__ import annotations

import io
import os
import platform
import sys

import click

import lsmkv
from lsmkv.cli import admin, data, loading, shape, sizes
from lsmkv.cli.group import CommandGroup
from lsmkv.filters import bloom


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted:
        form = "interpreted" if str(bloom.__file__).endswith(".py") else "compiled"
        click.echo(f"lsmkv {lsmkv.__version__} ({form}, Python {platform.python_version()})")
        ctx.exit()


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Read, write and look after lsmkv stores.

    STORE is a store's directory.  Commands that only read work beside a program that writes; those
    that write need the store to themselves.

    Keys and values are UTF-8 text in which a backslash starts \\xNN (one byte, in hex) or \\\\ (a
    backslash), and nothing else.  Output is written the same way, with \\xNN for bytes that are not
    UTF-8 and for control characters, so what is printed can be typed or loaded back.  With --hex
    keys and values are hex digits, with --raw bytes as they come.  In JSON, bytes that are not
    UTF-8 are {"hex": "..."}.

    A key that starts with a dash goes after "--": lsmkv get STORE -- -key

    \b
    Exit codes:  0 done         3 get: no such key       130 interrupted
                 1 failed       4 verify: damage found   141 output closed early
                 2 wrong usage    repair: not all kept

    \b
    Example:  lsmkv put users.db alice '{"age": 34}'
              lsmkv get users.db alice
    """


for _command in (
    data.put,
    data.get,
    data.delete,
    data.scan,
    data.count,
    loading.load,
    loading.dump,
    shape.stats,
    shape.inspect,
    shape.explain,
    admin.verify,
    admin.repair,
    admin.compact,
    admin.destroy,
    sizes.command,
):
    cli.add_command(_command)


def _open_closed_streams() -> None:
    """Give standard streams that are closed a file, or the store's first files would be theirs.

    To read from standard input, or write to standard output, is an error then.
    """
    for name, mode, flags in (
        ("stdin", "r", os.O_WRONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            stream = open(os.open(os.devnull, flags), mode, encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, stream)


def main() -> None:
    """Run the command that ``sys.argv`` gives, and exit."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Paths need not be UTF-8, and terminals need not show all of it.
            stream.reconfigure(errors="backslashreplace")
    cli(prog_name="lsmkv")
