"""The command that shows a store as a page."""

from __future__ import annotations

import contextlib
import tempfile
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click

from lsmkv.cli.explain import lookup_keys
from lsmkv.cli.group import describe
from lsmkv.cli.keys import Form
from lsmkv.cli.output import output_file, refuse_inside
from lsmkv.cli.parameters import refuse_empty, settings_option
from lsmkv.inspection.report import size


@click.command(short_help="Show STORE as a page: its map, lookups, filters.")
@click.argument("store", type=click.Path(), required=False, callback=refuse_empty)
@click.option(
    "--demo", is_flag=True, help="Show a small store of four runs, made for it; opens it."
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False),
    default="explore.html",
    show_default=True,
    help="File to write, - for standard output; what is there is replaced.",
)
@click.option(
    "--lookups",
    type=click.File("rb"),
    metavar="FILE",
    help="Record lookups of the keys of FILE, a key a line, in place of sampled ones.",
)
@click.option("--serve", is_flag=True, help="Serve a live page to this machine's browsers instead.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Port of the live page, with --serve (default: any that is free).",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@settings_option("for this reading of STORE, e.g. filter_residency=off; STORE stays as it is")
def explore(
    store: str | None,
    demo: bool,
    out: str,
    lookups: BinaryIO | None,
    serve: bool,
    port: int | None,
    opens: bool,
    settings: dict[str, Any],
) -> None:
    """Show STORE as a page: its map, lookups step by step, and which reads its filters avoid.

    Without --serve the page is one file of at most 2 MB.  It holds lookups of sampled keys, and loads
    nothing from anywhere, so it can be mailed.

    With --serve lookups of any key run against STORE, and the page follows what other processes write.
    Only browsers of this machine that know the printed address get an answer.  Ctrl-C or
    SIGTERM ends it.  It needs Starlette and uvicorn: pip install "lsmkv[explore]"

    With --lookups it looks up the keys of FILE ("-" is standard input; text, with \\xNN for other bytes),
    and colours the blocks whose reads they wasted.  The page holds the first 200 of them, and the first
    25 that wasted a read.

    \b
    Example:  lsmkv explore --demo
              lsmkv explore users.db --out users.html
              lsmkv explore users.db --lookups keys.txt
              lsmkv explore users.db --serve --open
    """
    if port is not None and not serve:
        raise click.UsageError(
            f"--port {port} is the port of a live page: add --serve, or leave --port out"
        )
    if lookups is not None and serve:
        raise click.UsageError(
            "--lookups is for a page in a file: leave --serve out, or look the keys up on the live page"
        )
    if demo and store is not None:
        raise click.UsageError(f"--demo shows a store of its own: leave out {store}, or --demo")
    if not demo and store is None:
        raise click.UsageError("name a STORE, or give --demo for one that is ready to try")
    with _demo_store() if demo else contextlib.nullcontext(store or "") as path:
        if lookups is not None:
            try:
                settings["keys"] = list(lookup_keys(lookups, Form.TEXT))
            except ValueError as error:  # a line that is no key
                raise ValueError(f"{lookups.name}: {describe(error)}") from error
        if serve:
            _serve(path, port or 0, opens or demo, settings)
        else:
            _write(path, out, opens or demo, settings)


@contextlib.contextmanager
def _demo_store() -> Iterator[str]:
    from lsmkv.explore.demo import make_store

    with tempfile.TemporaryDirectory(prefix="lsmkv-") as directory:
        path = str(Path(directory, "demo"))
        make_store(path)
        yield path


def _write(store: str, out: str, opens: bool, settings: dict[str, Any]) -> None:
    from lsmkv.explore.page import file_page

    page = file_page(store, **settings).encode("utf-8")
    refuse_inside(store, "--out", out)
    with output_file(out) as file:
        left = memoryview(page)
        while left:  # an unbuffered standard output may take a part at a time
            left = left[file.write(left) :]
    if out != "-":
        click.echo(f"{out}: {size(len(page))}")
        if opens:
            webbrowser.open(Path(out).absolute().as_uri())


def _serve(store: str, port: int, opens: bool, settings: dict[str, Any]) -> None:
    from lsmkv.explore.exploration import Exploration

    try:
        from lsmkv.explore.server import serve
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f'--serve needs {error.name}, which is not installed: pip install "lsmkv[explore]"'
        ) from error

    def ready(address: str) -> None:
        click.echo(f"{store}: {address}\nCtrl-C ends it.")
        if opens:
            webbrowser.open(address)

    with Exploration(store, is_live=True, **settings) as exploration:
        serve(exploration, port, ready)
