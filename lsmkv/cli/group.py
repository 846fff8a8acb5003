"""How commands end: exit codes, errors in one line, closed pipes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import click

import lsmkv

ABSENT: Final = 3
"""Exit code of ``get`` when the store does not have the key."""

DAMAGED: Final = 4
"""Exit code of ``verify`` when it finds damage, and of ``repair`` when it cannot keep everything."""

INTERRUPTED: Final = 130  # 128 + SIGINT, as shells count
PIPE_CLOSED: Final = 141  # 128 + SIGPIPE

# How the library's errors end with advice for programs, and the same advice for the command line.
_ADVICE: Final = (
    (", or open it with read_only=True", "; commands that only read work meanwhile"),
    ("which lsmkv.repair can rebuild", 'which "lsmkv repair" can rebuild'),
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

# What the answers of object storage say in their own way, and what to do about it.
_SIGNS: Final = (
    (
        "169.254.169.254",  # where virtual machines of all clouds ask for credentials, as a last resort
        "no credentials were found (S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE)",
    ),
    ("NoSuchBucket", "the bucket does not exist; create it first"),
)


class CommandGroup(click.Group):
    """Turns errors of commands into one line and exit code 1."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order added: related commands stand together

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
        except KeyboardInterrupt:
            click.echo("Interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except (lsmkv.Error, OSError, ValueError, TypeError, MemoryError) as error:
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
    return " ".join(text.split())


@contextlib.contextmanager
def saying_how_far(done: Callable[[], str]) -> Iterator[None]:
    """Add ``done()``, say "3 entries loaded", to what stops the block."""
    try:
        yield
    except (lsmkv.Error, OSError, ValueError, MemoryError) as error:
        raise click.ClickException(f"{describe(error)} ({done()} before that)") from error
    except KeyboardInterrupt:
        click.echo(f"stopped ({done()} before that)", err=True)
        raise


def _drop_unwritable_output() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()


def _drop_output() -> None:
    """Discard what is still buffered; the interpreter would fail to write it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
