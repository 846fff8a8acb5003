"""Parameters that several commands share."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any, Final

import click

from lsmkv.cli.keys import Form, parse
from lsmkv.filters.keys import filter_key_from_spec
from lsmkv.options import Options

Decorator = Callable[[Callable[..., None]], Callable[..., None]]

_FORM: Final = "lsmkv.form"  # in a context's ``meta``: the form that --hex or --raw chose


def refuse_empty(_ctx: click.Context, _param: click.Parameter, store: str | None) -> str | None:
    if store == "":  # an unset shell variable must not mean the present directory
        raise click.BadParameter("it is empty; the present directory is .")
    return store


store_argument = click.argument("store", type=click.Path(), callback=refuse_empty)
create_option = click.option(
    "--create/--no-create",
    default=True,
    show_default=True,
    help="Create the store if it does not exist.",
)
wait_option = click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Wait so long while another process has STORE open for writing (default: 0).",
)


def _ttl(help_text: str) -> Decorator:
    seconds = click.FloatRange(min=0, min_open=True)
    return click.option("--ttl", "ttl_s", type=seconds, metavar="SECONDS", help=help_text)


entry_ttl_option = _ttl("How long the entry is there (default: for ever).")
ttl_option = _ttl("How long what has no expiry of its own is there (default: for ever).")


def json_option(prints: str = 'Print JSON; bytes that are not UTF-8 as {"hex": ...}.') -> Decorator:
    return click.option("--json", "as_json", is_flag=True, help=prints)


def chosen_form() -> Form:
    """The form that ``--hex`` or ``--raw`` chose for this command."""
    form: Form = click.get_current_context().meta.get(_FORM, Form.TEXT)
    return form


class Bytes(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """A key or value in the form that ``--hex`` or ``--raw`` chose."""

    name = "bytes"

    def convert(self, value: Any, param: Any, ctx: Any) -> bytes:
        form = chosen_form()
        if form is Form.RAW:
            return os.fsencode(value)
        try:
            return parse(value, form)
        except ValueError as error:
            self.fail(str(error), param, ctx)


BYTES: Final = Bytes()


def key_option(name: str, help_text: str) -> Decorator:
    return click.option(name, type=BYTES, metavar="KEY", help=help_text)


start_option = key_option("--start", "First key to include (default: the first in STORE).")
stop_option = key_option("--stop", "Key to stop before (default: after the last in STORE).")
prefix_option = key_option("--prefix", "Only keys that start with this (default: all).")


def _choose_form(ctx: click.Context, param: click.Parameter, given: bool) -> None:
    if given:
        if _FORM in ctx.meta:
            raise click.UsageError("--hex and --raw exclude each other")
        ctx.meta[_FORM] = Form(param.name)


def form_options(command: Callable[..., None]) -> Callable[..., None]:
    """``--hex`` and ``--raw``, which choose what :class:`Bytes` takes."""
    for form, help_text in (
        (Form.RAW, "Keys and values are plain bytes, without escapes."),
        (Form.HEX, "Keys and values are hex, two digits a byte."),
    ):
        command = click.option(
            f"--{form.value}",
            is_flag=True,
            is_eager=True,  # before the keys and values that it is about
            expose_value=False,
            callback=_choose_form,
            help=help_text,
        )(command)
    return command


def range_options(command: Callable[..., None]) -> Callable[..., None]:
    """``--start``, ``--stop`` and ``--prefix``, and the form of their keys."""
    return start_option(stop_option(prefix_option(form_options(command))))


def _parse_settings(
    _ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]
) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    try:
        for item in given:
            name, equals, text = item.partition("=")
            if not equals:
                raise ValueError(f"{item!r} is not of the form NAME=VALUE")
            settings[name] = _setting(name, text)
        Options().replace(**settings)
    except (TypeError, ValueError) as error:
        raise click.BadParameter(str(error)) from None
    return settings


def _setting(name: str, text: str) -> object:
    """``text`` as the type of the option's default; ``Options`` refuses unknown names."""
    default = {field.name: field.default for field in dataclasses.fields(Options)}.get(name)
    if name == "filter_key":
        return filter_key_from_spec(text)
    if isinstance(default, bool):
        if text not in ("true", "false"):
            raise ValueError(f"{name}={text}: must be true or false")
        return text == "true"
    try:
        if isinstance(default, int):
            return int(text, 0)
        if isinstance(default, float):
            return float(text)
    except ValueError:
        kind = "whole number" if isinstance(default, int) else "number"
        raise ValueError(f"{name}={text}: must be a {kind}") from None
    return text


def settings_option(what: str = "for the tables written now, e.g. error_rate=0.001") -> Decorator:
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_parse_settings,
        help=f"Set a field of lsmkv.Options {what}.",
    )
