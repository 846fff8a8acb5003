"""Results of functions, kept in a cache."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, Final, Protocol, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_MISSING: Final = object()


class Results(Protocol):
    """What keeps the results: a cache."""

    def get(self, key: Any, default: Any, /) -> Any: ...
    def set(self, key: Any, value: Any, *, expire: float | None, tag: Any) -> object: ...


def memoized(
    cache: Results,
    function: F,
    name: str | None,
    typed: bool,
    expire: float | None,
    tag: Any,
    ignore: Collection[int | str],
) -> F:
    """``function`` with its results in ``cache``; coroutine functions give coroutine functions."""
    base = name or f"{function.__module__}.{function.__qualname__}"

    def cache_key(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The key of the result for these arguments."""
        named = sorted((word, value) for word, value in kwargs.items() if word not in ignore)
        ordered = tuple(value for place, value in enumerate(args) if place not in ignore)
        key = (base, ordered, tuple(named))
        return key if typed else (base, _untyped(ordered), _untyped(tuple(named)))

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def remembered(*args: Any, **kwargs: Any) -> Any:
            key = cache_key(*args, **kwargs)
            result = cache.get(key, _MISSING)
            if result is _MISSING:
                result = await function(*args, **kwargs)
                cache.set(key, result, expire=expire, tag=tag)
            return result

    else:

        @functools.wraps(function)
        def remembered(*args: Any, **kwargs: Any) -> Any:
            key = cache_key(*args, **kwargs)
            result = cache.get(key, _MISSING)
            if result is _MISSING:
                result = function(*args, **kwargs)
                cache.set(key, result, expire=expire, tag=tag)
            return result

    wrapper: Any = remembered
    wrapper.__cache_key__ = cache_key
    kept: F = wrapper
    return kept


def _untyped(argument: Any) -> Any:
    """Numbers that are equal, as one: 1 for 1.0 and True."""
    if isinstance(argument, tuple):
        return tuple(map(_untyped, argument))
    if isinstance(argument, bool) or (isinstance(argument, float) and argument.is_integer()):
        return int(argument)
    return argument
