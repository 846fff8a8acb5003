"""``with`` blocks whose end an interrupt cannot skip.

With ``contextlib.contextmanager`` an interrupt (Ctrl-C) may come before contextlib's code goes on.  The
generator then keeps its locks for as long as anything keeps the traceback.  Here only the ``with``
statement refers to the generator: if it ends early, the generator's ``finally`` runs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any
from weakref import ref


class _Taken:
    """A special method of each object, which a lookup removes from it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, block: Block | None, owner: type) -> Callable[..., Any]:
        if block is None:
            return self
        method = block.methods.pop(self._name, None)
        if method is None:
            raise RuntimeError("this block was entered already: make another for each 'with'")
        return method

    def __call__(self, block: Block, *arguments: object) -> Any:
        """``type(block).__exit__(block, ...)``, as contextlib.ExitStack calls it."""
        return self.__get__(block, Block)(*arguments)


class _Leave(partial[None]):
    """Calls :func:`_leave`, and keeps the generator."""

    steps: Generator[None]


class Block:
    """A ``with`` block in place of a generator's ``yield``.

    Afterwards the generator goes on; if the block raises, it is closed there (GeneratorExit).  One block
    is for one ``with``.
    """

    __slots__ = ("methods",)

    def __init__(self, steps: Generator[None]) -> None:
        leave = _Leave(_leave, ref(steps))
        leave.steps = steps
        # ``__next__`` is C code: no interrupt comes between the generator's ``yield`` and the block.
        self.methods: dict[str, Callable[..., Any]] = {
            "__enter__": steps.__next__,
            "__exit__": leave,
        }

    __enter__ = _Taken()
    __exit__ = _Taken()


def _leave(
    steps: ref[Generator[None]], kind: type[BaseException] | None, error: object, trace: object
) -> None:
    # An interrupt comes before ``steps`` is called, or once the generator runs.
    generator = steps()
    assert generator is not None  # the caller has it
    if kind is None:
        next(generator, None)
    else:
        generator.close()
