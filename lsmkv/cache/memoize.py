"""Results of functions, kept in a cache."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar

from lsmkv.cache.arguments import expiry_time, packed_key, packed_tag

F = TypeVar("F", bound=Callable[..., Any])

_MISSING: Final = object()


def memoized(
    cache: Any,
    function: F,
    name: str | None,
    typed: bool,
    expire: float | None,
    tag: Any,
    ignore: Collection[int | str],
) -> F:
    """``function`` with its results in ``cache``; coroutine functions give coroutine functions."""
    base = name or _own_name(function)
    expiry_time(expire, 0.0), packed_tag(tag)  # what is wrong with them is an error before any call

    def cache_key(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The key of the result for these arguments."""
        named = sorted((word, value) for word, value in kwargs.items() if word not in ignore)
        ordered = tuple(value for place, value in enumerate(args) if place not in ignore)
        key = (base, ordered, tuple(named))
        return key if typed else (base, _untyped(ordered), _untyped(tuple(named)))

    def found(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        key = cache_key(*args, **kwargs)
        try:
            return key, cache.get(key, _MISSING)
        except TypeError:
            _check_arguments(base, {**dict(enumerate(args)), **kwargs}, ignore)
            raise

    def keep(key: Any, result: Any) -> None:
        try:
            cache.set(key, result, expire=expire, tag=tag)
        except TypeError as error:
            raise TypeError(f"cannot keep what {base} returned: {error}") from error

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def remembered(*args: Any, **kwargs: Any) -> Any:
            key, result = found(args, kwargs)
            if result is _MISSING:
                result = await function(*args, **kwargs)
                keep(key, result)
            return result

    else:

        @functools.wraps(function)
        def remembered(*args: Any, **kwargs: Any) -> Any:
            key, result = found(args, kwargs)
            if result is _MISSING:
                result = function(*args, **kwargs)
                keep(key, result)
            return result

    wrapper: Any = remembered
    wrapper.__cache_key__ = cache_key
    kept: F = wrapper
    return kept


def _check_arguments(name: str, arguments: dict[Any, Any], ignore: Collection[int | str]) -> None:
    """TypeError for the first argument that is no key."""
    for place, value in arguments.items():
        if place in ignore:
            continue
        try:
            packed_key(value)
        except TypeError as error:
            raise TypeError(
                f"argument {place!r} of {name} is no key: {error}; "
                f"or leave it out with ignore={{{place!r}}}"
            ) from None


def _own_name(function: Callable[..., Any]) -> str:
    """Module and qualified name; warns if other functions may have the same."""
    own = f"{function.__module__}.{function.__qualname__}"
    if "<lambda>" in own or "<locals>" in own or inspect.ismethod(function):
        warnings.warn(
            f"memoize keeps results by name, and other functions may be named {own}, too: they would "
            "get each other's results; name each, with memoize(name=...)",
            stacklevel=4,  # where the function is decorated
        )
    return own


def _untyped(argument: Any) -> Any:
    """Numbers that are equal, as one: 1 for 1.0 and True."""
    if isinstance(argument, tuple):
        return tuple(map(_untyped, argument))
    if isinstance(argument, bool) or (isinstance(argument, float) and argument.is_integer()):
        return int(argument)
    return argument
