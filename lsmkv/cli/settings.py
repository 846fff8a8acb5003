"""``--set NAME=VALUE``: the options of a store, from the command line."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from lsmkv.filters.keys import filter_key_from_spec
from lsmkv.options import Options


def _parse_settings(
    _ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]
) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals:
            raise click.BadParameter(f"{item!r} is not of the form NAME=VALUE")
        try:
            settings[name] = _value(name, text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    try:
        Options().replace(**settings)
    except (TypeError, ValueError) as error:
        raise click.BadParameter(str(error)) from None
    return settings


def _value(name: str, text: str) -> object:
    """``text`` as the type that the option's default has; unknown names are left to ``Options``."""
    default = {field.name: field.default for field in dataclasses.fields(Options)}.get(name)
    if name == "filter_key":
        return filter_key_from_spec(text)
    if isinstance(default, bool):
        if text not in ("true", "false"):
            raise ValueError(f"{name}={text}: must be true or false")
        return text == "true"
    if isinstance(default, int):
        try:
            return int(text, 0)
        except ValueError:
            raise ValueError(f"{name}={text}: must be a whole number") from None
    if isinstance(default, float):
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"{name}={text}: must be a number") from None
    return text


settings_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_parse_settings,
    help="Any field of lsmkv.Options for the tables written now, e.g. error_rate=0.001.",
)
