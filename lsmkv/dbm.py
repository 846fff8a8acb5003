"""Stores with the interface of the standard library's ``dbm`` modules.

>>> import lsmkv.dbm, tempfile, os
>>> path = os.path.join(tempfile.mkdtemp(), "fruit")
>>> with lsmkv.dbm.open(path, "c") as db:
...     db["apple"] = "red"
...     db[b"apple"], "pear" in db, db.keys()
(b'red', False, [b'apple'])

A shelf is ``shelve.Shelf(lsmkv.open(path))``.  For reading alone, it is
``shelve.Shelf(lsmkv.dbm.open(path))``.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self, SupportsIndex, Unpack

import lsmkv
from lsmkv.errors import uncopyable

__all__ = ["Database", "error", "open"]

_Text = str | bytes
_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
_SHOWN: Final = 80
_FLAGS: Final = ("r", "w", "c", "n")
_MISSING: Final = object()


class error(OSError):  # noqa: N801, N818  # what every dbm module calls it
    """A store could not be opened or used; ``__cause__`` is lsmkv's own error, if it had one."""


@contextmanager
def _translated(path: str | None = None) -> Iterator[None]:
    """Raise lsmkv's own errors as :class:`error`."""
    try:
        yield
    except lsmkv.NotAStoreError as cause:
        raise error(errno.ENOENT, str(cause), path) from cause
    except lsmkv.Error as cause:
        raise error(str(cause)) from cause


def _translating(keys: Iterator[bytes]) -> Iterator[bytes]:
    with _translated():
        yield from keys


def _encoded(text: object, what: str) -> bytes:
    if isinstance(text, str):
        try:
            return text.encode()
        except UnicodeEncodeError as cause:
            shown = repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."
            raise ValueError(
                f"the {what} {shown} has a lone surrogate at {cause.start}, which has no UTF-8: use "
                "bytes, text.encode(errors='surrogatepass')"
            ) from None
    if isinstance(text, (bytes, bytearray)):
        return bytes(text)
    raise TypeError(
        f"a {what} is str or bytes, not {type(text).__name__}: encode it, "
        "or use shelve.Shelf, which takes any object as a value"
    )


class Database(MutableMapping[bytes, bytes]):
    """An open store as ``dbm`` shows it: keys and values are bytes, and str is encoded as UTF-8.

    :func:`lsmkv.dbm.open` makes it.  Every method raises :class:`error` once it is closed.
    """

    def __init__(self, db: lsmkv.DB) -> None:
        self._db = db

    def __getitem__(self, key: _Text) -> bytes:
        data = key if type(key) is bytes else _encoded(key, "key")
        try:
            return self._db[data]
        except lsmkv.Error as cause:
            raise error(str(cause)) from cause

    def get(self, key: _Text, default: Any = None) -> Any:
        """The value of ``key``, or ``default`` when it is not there."""
        data = key if type(key) is bytes else _encoded(key, "key")
        try:
            return self._db.get(data, default)
        except lsmkv.Error as cause:
            raise error(str(cause)) from cause

    def __contains__(self, key: object) -> bool:
        with _translated():
            return _encoded(key, "key") in self._db

    def __len__(self) -> int:
        """The number of keys.  O(n): scans them."""
        with _translated():
            return len(self._db)

    def __bool__(self) -> bool:
        """Whether there is any key.  Looks for the first only."""
        with _translated():
            return bool(self._db)

    def __iter__(self) -> Iterator[bytes]:
        """The keys in order, as they are when the iteration starts."""
        with _translated():
            keys = iter(self._db)  # at once: list() asks for the length next
        return _translating(keys)

    def keys(self) -> list[bytes]:  # type: ignore[override]  # a list, as in every dbm module
        """All keys in order, as a list."""
        with _translated():
            return list(self._db)

    def values(self) -> list[bytes]:  # type: ignore[override]
        """All values in the order of their keys, as a list."""
        with _translated():
            return list(self._db.values())

    def items(self) -> list[tuple[bytes, bytes]]:  # type: ignore[override]
        """All keys in order, each with its value, as a list."""
        with _translated():
            return list(self._db.items())

    def firstkey(self) -> bytes | None:
        """The first key in order, or None if there is none."""
        with _translated():
            return next(iter(self._db), None)

    def nextkey(self, key: _Text) -> bytes | None:
        """The first key above ``key``, which need not be there; or None."""
        data = _encoded(key, "key")
        with _translated():
            return next((found for found in self._db.keys(start=data) if found != data), None)

    def __setitem__(self, key: _Text, value: _Text) -> None:
        data, content = _encoded(key, "key"), _encoded(value, "value")
        try:
            self._db.put(data, content)
        except lsmkv.Error as cause:
            raise error(str(cause)) from cause

    def __delitem__(self, key: _Text) -> None:
        with _translated():
            if self._db.read_only:  # also where the key is not there
                raise error(f"{self._db.path} was opened with flag 'r'; use 'w' to write")
            del self._db[_encoded(key, "key")]

    def pop(self, key: _Text, default: Any = _MISSING) -> Any:
        """Remove ``key`` in one step, and return its value or ``default``; KeyError without either."""
        data = _encoded(key, "key")
        with _translated():
            return self._db.pop(data) if default is _MISSING else self._db.pop(data, default)

    def popitem(self) -> tuple[bytes, bytes]:
        """Remove the first key, in one step; returns it with its value.  KeyError: there is none."""
        with _translated():
            return self._db.popitem()

    def setdefault(self, key: _Text, default: _Text = b"") -> bytes:
        """The value of ``key``; set to ``default`` if missing, in one step."""
        data, value = _encoded(key, "key"), _encoded(default, "value")
        with _translated():
            return self._db.setdefault(data, value)

    def clear(self) -> None:
        """Remove every key."""
        with _translated():
            self._db.clear()

    def sync(self) -> None:
        """Make every write so far survive a power failure.  Does nothing on flag ``"r"``."""
        if not self._db.read_only:  # a shelf syncs whatever it closes
            with _translated():
                self._db.sync()

    def reorganize(self) -> None:
        """Free the space of what was deleted: merge all into one run."""
        with _translated():
            self._db.compact_range()

    def close(self) -> None:
        """Sync all writes and close the store.  A second call waits for the first."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("an lsmkv.dbm.Database", "open the store by its path instead")

    def __repr__(self) -> str:
        return f"<lsmkv.dbm.Database of {self._db!r}>"


def open(
    path: _Path,
    flag: str = "r",
    mode: int = 0o666,
    *,
    wait_s: float = 0.0,
    **options: Unpack[lsmkv.OptionsDict],
) -> Database:
    """Open the store in the directory ``path``.

    Args:
        path: a directory, not a file as in the other dbm modules.
        flag: ``"r"`` opens a store for reading, ``"w"`` for writing, too; ``"c"`` creates it if there
            is none; ``"n"`` destroys what store there is, and creates an empty one.
        mode: the permissions of new files, from which the umask is taken.
        wait_s: how many seconds to wait while another handle has the store open for writing; flag
            ``"n"`` waits for nobody.
        **options: options of the store (see :class:`lsmkv.Options`).

    Raises:
        error: there is no store, another process writes to it, or it is damaged.
        ValueError: the flag is none of those.
        OSError: a file cannot be read or written, or ``path`` is a file.
    """
    if flag not in _FLAGS:
        raise ValueError(f"flag must be one of 'r', 'w', 'c' and 'n', not {flag!r}")
    name = os.fsdecode(path)
    if flag != "r":
        options.setdefault("file_mode", _without_umask(mode))
    with _translated(name):
        if flag == "n":
            _destroy(name)
        return Database(
            lsmkv.open(
                name,
                create_if_missing=flag in ("c", "n"),
                read_only=flag == "r",
                wait_s=wait_s,
                **options,
            )
        )


def _without_umask(mode: int) -> int:
    umask = os.umask(0o077)  # the only way to ask is to set it
    os.umask(umask)
    return (mode & ~umask) | stat.S_IRUSR  # files that their writer cannot read are of no use


def _destroy(name: str) -> None:
    """Remove a store, or an empty file such as ``tempfile`` makes."""
    found = Path(name)
    if found.is_file() and found.stat().st_size == 0:
        found.unlink()
    with suppress(lsmkv.NotAStoreError):
        lsmkv.destroy(name)
