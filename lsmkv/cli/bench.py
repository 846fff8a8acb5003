"""The command that runs the benchmark harness."""

from __future__ import annotations

import importlib
from typing import Final

import click

_HARNESS: Final = "lsmkv_bench.__main__"  # in the same wheel, but nothing here needs it
_INSTALL: Final = 'pip install "lsmkv[bench]"'


@click.command(
    short_help="Measure: how many disk reads filters save, also for your own keys.",
    context_settings={"allow_interspersed_args": False},  # options are the experiment's
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[EXPERIMENT] [OPTION]...")
def bench(arguments: tuple[str, ...]) -> None:
    """Run an EXPERIMENT of the benchmark harness; without one, list them.

    Its report goes to out/EXPERIMENT, or to the folder of --out.  It needs numpy and more:
    pip install "lsmkv[bench]"

    \b
    Example:  lsmkv bench saved-io --minute
              lsmkv bench saved-io --minute --keys keys.txt --lookups lookups.txt
              lsmkv bench saved-io --help
    """
    try:
        harness = importlib.import_module(_HARNESS)
    except ModuleNotFoundError as error:
        if error.name is None or not _HARNESS.startswith(error.name):
            raise
        raise click.ClickException(
            f"the benchmark harness is not installed: {_INSTALL}; in a checkout it is "
            '"python -m bench"'
        ) from error
    harness.main(list(arguments))
