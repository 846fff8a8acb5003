"""How commands end: exit codes, errors in one line, closed pipes."""

from __future__ import annotations

import os
import sys
from typing import Any, Final, NoReturn

import click

import lsmkv
from lsmkv.cli.parameters import Bytes
from lsmkv.storage.file_names import CURRENT

ABSENT: Final = 3  # exit code of get when the store does not have the key
DAMAGED: Final = 4
"""Exit code of ``verify`` when it finds damage, and of ``repair`` when it cannot keep everything."""

INTERRUPTED: Final = 130  # 128 + SIGINT, as shells count
PIPE_CLOSED: Final = 141  # 128 + SIGPIPE

_NAMES: Final = {
    "put": "set add insert write update",
    "get": "read fetch cat",
    "delete": "del rm remove erase unset",
    "scan": "keys items values list ls range",
    "count": "len length wc",
    "load": "import ingest",
    "dump": "export",
    "inspect": "info stat describe tables",
    "explain": "lookup trace why",
    "explore": "browse serve show ui view",
    "verify": "check fsck validate",
    "repair": "fix recover",
    "compact": "merge optimize vacuum",
    "checkpoint": "clone copy cp snapshot",
    "backup": "restore",  # whose help says how
    "publish": "push upload",
    "destroy": "drop",
    "bench": "benchmark measure",
    "--version": "version",
    "--help": "help",
}
OTHER_NAMES: Final = {other: name for name, others in _NAMES.items() for other in others.split()}
"""Command names of other tools, each with the command or option here."""

# How the library's errors end with advice for programs, and the same advice for the command line.
_ADVICE: Final = (
    (", or open it with read_only=True", "; commands that only read work meanwhile"),
    ("which lsmkv.repair can rebuild", 'which "lsmkv repair" can rebuild'),
    ("; lsmkv.open(path) makes a store", '; "lsmkv put" or "lsmkv load" makes a store'),
    ("or in_place=True instead", "or --in-place instead"),
    ("open with direct_reads=False", "do without --set direct_reads=true"),
    (
        ", with read_only=True; write to a store in a directory, and publish it",
        '; write to a store in a directory, and send it with "lsmkv publish"',
    ),
    (
        "only lsmkv.open with read_only=True and DB.publish take URLs",
        'only commands that read, and "lsmkv publish", take URLs',
    ),
    ("mend its cause and call resume()", "mend its cause and run the command again"),
    (
        "read it with read_only=True, and write what it holds to a new store",
        'read it with "lsmkv dump", and put that into a new store with "lsmkv load"',
    ),
)

_ON_DAMAGE: Final = '; try "lsmkv verify STORE", then "lsmkv repair STORE --output NEW"'

# What the answers of object storage say in their own way, and what to do about it.
_SIGNS: Final = (
    (
        "169.254.169.254",  # where virtual machines of all clouds ask for credentials, as a last resort
        "no credentials were found (S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE)",
    ),
    ("NoSuchBucket", "the bucket does not exist; create it first"),
)


class CommandGroup(click.Group):
    """Turns errors into one line and exit code 1, interrupts into 130."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order added: related commands stand together

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        meant = OTHER_NAMES.get(args[0].lower())
        if meant is not None and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant!r}?")
        return super().resolve_command(ctx, args)

    def main(self, *arguments: Any, **extra: Any) -> NoReturn:
        extra["standalone_mode"] = False  # so that click raises what ends it
        try:
            try:
                code: Any = super().main(*arguments, **extra)
            except click.ClickException as error:
                error.show()
                code = error.exit_code
            except click.Abort as error:  # what click makes of an interrupt
                raise KeyboardInterrupt from error
        except KeyboardInterrupt:
            click.echo("Interrupted", err=True)
            code = INTERRUPTED
        sys.exit(code)

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **extra)
        except BrokenPipeError:  # --help and --version print in here
            _drop_output()
            sys.exit(PIPE_CLOSED)
        except OSError as error:
            _drop_unwritable_output()
            raise click.ClickException(describe(error)) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            _drop_output()
            ctx.exit(PIPE_CLOSED)
        except click.NoSuchOption as error:
            params = [] if error.ctx is None else error.ctx.command.params
            arguments = [param for param in params if isinstance(param, click.Argument)]
            if not any(isinstance(argument.type, Bytes) for argument in arguments):
                raise
            hint = 'A key or value that starts with a dash goes after "--".'
            raise click.UsageError(f"{error.format_message()}\n{hint}", error.ctx) from None
        except (lsmkv.Error, OSError, ValueError, TypeError, MemoryError, EOFError) as error:
            _drop_unwritable_output()
            raise click.ClickException(describe(error)) from error


def describe(error: BaseException) -> str:
    """The error on one line, with advice for the command line."""
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror
        if error.filename is not None:
            text = f"{error.filename}: {text}"
    elif isinstance(error, MemoryError):
        text = "there is not enough memory"
    else:
        text = str(error) or type(error).__name__
    for advice, translated in _ADVICE:
        if text.endswith(advice):
            text = text.removesuffix(advice) + translated
    for sign, meaning in _SIGNS:
        if sign in text:
            text += f"; {meaning}"
    cause = error.__cause__
    if isinstance(error, lsmkv.Error) and cause is not None and str(cause) not in text:
        text += f": {describe(cause)}"
    if isinstance(error, lsmkv.CorruptionError):
        beside = os.path.join(os.path.dirname(error.path), CURRENT)
        text += _ON_DAMAGE if os.path.lexists(beside) else ""  # it may be in no store
    return " ".join(text.split())


def _drop_unwritable_output() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()


def _drop_output() -> None:
    """Discard what is still buffered; the interpreter would fail to write it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
