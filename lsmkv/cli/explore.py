"""The command that shows a store as a page."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Any

import click

from lsmkv.cli.output import output_file, size
from lsmkv.cli.parameters import settings_option, store_argument


@click.command(short_help="Show STORE as a page: its map, lookups, filters.")
@store_argument
@click.option(
    "--out",
    type=click.Path(dir_okay=False),
    default="explore.html",
    show_default=True,
    help="File to write, - for standard output; what is there is replaced.",
)
@click.option("--serve", is_flag=True, help="Serve a live page to this machine's browsers instead.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    help="Port of the live page (default: any that is free).",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@settings_option
def explore(
    store: str, out: str, serve: bool, port: int, opens: bool, settings: dict[str, Any]
) -> None:
    """Show STORE as a page: its map, lookups step by step, and what its filters spare.

    Without --serve the page is one file of at most 2 MB.  It holds lookups of sampled keys, and loads
    nothing from anywhere, so it can be mailed.

    With --serve lookups of any key run against STORE, and the page follows what other processes write.
    Only browsers of this machine that know the printed address get an answer.  Ctrl-C ends it.
    It needs Starlette and uvicorn: pip install "lsmkv[explore]"

    \b
    Example:  lsmkv explore users.db --out users.html
              lsmkv explore users.db --serve --open
    """
    if serve:
        _serve(store, port, opens, settings)
        return
    from lsmkv.explore.page import file_page

    page = file_page(store, **settings).encode("utf-8")
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
