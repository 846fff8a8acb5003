"""Requests to object storage: the only access to it, through ``obstore``.

``obstore`` retries with backoff, and finds credentials where the tools of each cloud put them.  Its
calls cannot be interrupted, so each runs in a thread of a pool, where an interrupt of the main thread
does not reach it.  Every request is counted once, when it is sent; its retries are not.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

from lsmkv.errors import ClosedError, CorruptionError, ForkedError, MissingExtraError
from lsmkv.options import MIB, Options
from lsmkv.remote.urls import checked_url, local_folder
from lsmkv.stats import Stats
from lsmkv.storage.storage import shown_url

try:
    import obstore
    from obstore import exceptions as failures
    from obstore import store as stores
except ModuleNotFoundError as error:
    raise MissingExtraError(
        f'object storage needs {error.name}, which is not installed: pip install "lsmkv[remote]"'
    ) from error

_T = TypeVar("_T")

PAGE_NAMES: Final = 1000
"""Names in one answer to a LIST request, at most; and objects that one request removes."""

PART_BYTES: Final = 8 * MIB
"""Longer objects are sent in parts of this size, and longer ranges are read in such pieces."""

_MOST_PARTS: Final = 10_000  # of an object, in S3
_MOST_REQUESTS: Final = 64  # at the same time
_PARTS_AT_ONCE: Final = 4  # of one object
# Shares of a request's time: one attempt must leave time for others.
_ATTEMPTS: Final = 4
_LONGEST_REASON: Final = 300
_BEYOND_THE_END: Final = ("416 Range Not Satisfiable", "Requested range was invalid")
_CUT_ANSWER: Final = "response body error"
_ANY_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*")
_LEADS_ELSEWHERE: Final = re.compile(
    "(AWS|AZURE|GOOGLE)_.*(ENDPOINT|URL|REGION|ACCOUNT|EMULATOR|PROFILE|APPLICATION_CREDENTIALS).*",
    re.IGNORECASE,
)
"""Variables of the environment by which one URL names the storage of different servers or accounts."""

_users: set[int] = set()  # the processes that have sent requests; a fork inherits the set
_serving = threading.local()  # ``yes`` in the pools' threads


class AlreadyThereError(Exception):
    """An object that was to be created is there already."""


class Bucket:
    """The objects whose names begin with ``url``.  Any thread may use it.

    Names are relative to ``url``.  Raises OSError that names object and request when a request fails,
    FileNotFoundError when an object is missing, CorruptionError when it is shorter than asked for, and
    ClosedError once the bucket is closed.

    Attributes:
        identity: different for different storage; short, and tells nothing of it.
    """

    def __init__(self, url: str, options: Options, stats: Stats) -> None:
        self.url = checked_url(url)
        self._is_local = self.url.startswith("file:")
        given = [] if self._is_local else os.environ.items()
        leading = sorted(item for item in given if _LEADS_ELSEWHERE.fullmatch(item[0]))
        told = repr((self.url, leading)).encode()
        self.identity = hashlib.blake2b(told, digest_size=16).hexdigest()
        self._stats = stats
        self._timeout_s = options.request_timeout_s
        self._retries = options.request_retries
        _refuse_fork()
        self._store = self._connected(options, 1)
        self._sending = self._connected(options, _ATTEMPTS * _ATTEMPTS)
        self._is_closed = False
        note_serving = partial(setattr, _serving, "yes", True)
        self._pool = ThreadPoolExecutor(_MOST_REQUESTS, "lsmkv-request", note_serving)

    def _connected(self, options: Options, patience: int) -> Any:
        """A client; each of its attempts may take ``patience`` times as long as is usual."""
        if self._is_local:
            folder = local_folder(self.url)
            if os.path.lexists(folder) and not os.path.isdir(folder):
                raise NotADirectoryError(errno.ENOTDIR, "the url names a file", folder)
            return stores.from_url(self.url, mkdir=True)
        attempt = timedelta(seconds=options.request_timeout_s / _ATTEMPTS)
        provider = _aws_profile() if self.url.startswith("s3") else None
        try:
            return stores.from_url(
                self.url,
                credential_provider=provider,
                client_options={
                    "allow_http": True,
                    "timeout": attempt * patience,
                    "connect_timeout": min(attempt, timedelta(seconds=5)),
                },
                retry_config={
                    "max_retries": options.request_retries,
                    "retry_timeout": attempt * (_ATTEMPTS - 1) * patience,
                },
            )
        except failures.BaseError as error:
            raise ValueError(f"url={self.url!r}: {_first_line(error)}") from None

    def path(self, name: str) -> str:
        """The URL of an object."""
        return f"{self.url}/{name}"

    # Reading

    def get(self, name: str, offset: int, length: int) -> bytes:
        """``length`` bytes of an object from ``offset``: one request."""
        return self.result(self.start_get(name, offset, length))

    def start_get(self, name: str, offset: int, length: int) -> Future[bytes]:
        """Start a :meth:`get`; :meth:`result` waits for it."""
        return self._start(self._get, name, offset, length)

    def _get(self, name: str, offset: int, length: int) -> bytes:
        self._stats.object_gets += 1
        self._stats.object_get_bytes += length
        try:
            found = obstore.get_range(self._store, name, start=offset, length=length)
            data: bytes = found.to_bytes()
        except Exception as error:
            if not any(told in str(error) for told in _BEYOND_THE_END):
                asked = f"GET of {length} bytes at offset {offset}"
                raise self._failure(error, name, asked) from None
            data = b""
        if len(data) != length:
            reason = "object ends early"
            raise CorruptionError(self.path(name), offset, reason, expected=length, got=len(data))
        return data

    def get_whole(self, name: str, limit: int) -> bytes:
        """All bytes of a small object: one request.  CorruptionError for more than ``limit``."""
        return self._run(self._get_whole, name, limit)

    def _get_whole(self, name: str, limit: int) -> bytes:
        self._stats.object_gets += 1
        try:
            answer = obstore.get(self._store, name)
            size = answer.meta["size"]
            if size > limit:
                reason = f"object of {size} bytes: {limit} are the most"
                raise CorruptionError(self.path(name), None, reason)
            data = bytes(answer.bytes())
        except Exception as error:
            raise self._failure(error, name, "GET of all bytes") from None
        self._stats.object_get_bytes += len(data)
        return data

    def first_names(self, folder: str) -> list[str]:
        """The first names below ``folder``, in order: one request."""
        most_pages = None if self._is_local else 1  # local names come in no order
        return sorted(self._run(self._names, folder, most_pages))[:PAGE_NAMES]

    def names(self, folder: str) -> list[str]:
        """All names below ``folder``, in order: a request for each thousand."""
        return sorted(self._run(self._names, folder, None))

    def _names(self, folder: str, most_pages: int | None) -> list[str]:
        """Names of the first pages of a list; asked anew if it was cut, which obstore does not do."""
        for left in reversed(range(self._retries + 1)):
            try:
                pages = islice(self._pages(folder), most_pages)
                return [name for page in pages for name in page]
            except Exception as error:
                if not left or _CUT_ANSWER not in str(error):
                    raise self._failure(error, folder, "LIST") from None
        raise AssertionError("unreachable")

    def _pages(self, folder: str) -> Iterator[list[str]]:
        self._stats.object_lists += 1
        listing = obstore.list(self._store, folder, chunk_size=PAGE_NAMES)
        for number, page in enumerate(listing):
            if number:  # a server says with a page whether another follows
                self._stats.object_lists += 1
            yield [found["path"].removeprefix(f"{folder}/") for found in page]

    # Writing

    def create(self, name: str, data: bytes) -> None:
        """Make an object; AlreadyThereError if its name is taken."""
        self._run(self._put, name, data, "create")

    def _put(self, name: str, data: bytes, mode: Any) -> None:
        self._stats.object_puts += 1
        self._stats.object_put_bytes += len(data)
        try:
            obstore.put(self._sending, name, data, mode=mode, use_multipart=False)
        except failures.AlreadyExistsError:
            raise AlreadyThereError(name) from None
        except Exception as error:
            raise self._failure(error, name, f"PUT of {len(data)} bytes") from None

    def start_upload(
        self, name: str, size_bytes: int, read: Callable[[int, int], bytes]
    ) -> Future[None]:
        """Start sending what ``read(offset, length)`` returns; :meth:`result` waits for it."""
        return self._start(self._upload, name, size_bytes, read)

    def _upload(self, name: str, size_bytes: int, read: Callable[[int, int], bytes]) -> None:
        part_bytes = max(PART_BYTES, -(-size_bytes // _MOST_PARTS))
        if size_bytes <= part_bytes:
            return self._put(name, read(0, size_bytes), "overwrite")
        starts = range(0, size_bytes, part_bytes)
        self._stats.object_puts += 2 + len(starts)
        self._stats.object_put_bytes += size_bytes
        try:
            obstore.put(
                self._sending,
                name,
                (read(start, min(part_bytes, size_bytes - start)) for start in starts),
                use_multipart=True,
                chunk_size=part_bytes,
                max_concurrency=_PARTS_AT_ONCE,
            )
        except Exception as error:
            raise self._failure(error, name, f"PUT of {size_bytes} bytes in parts") from None

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects, by the thousand; one that is missing is no error."""
        rest = iter(names)
        while batch := list(islice(rest, PAGE_NAMES)):
            self._run(self._delete, batch)

    def _delete(self, names: list[str]) -> None:
        self._stats.object_deletes += 1
        try:
            obstore.delete(self._store, names)
        except FileNotFoundError:
            pass
        except Exception as error:
            raise self._failure(error, names[0], f"DELETE of {len(names)} objects") from None

    # Threads, errors, the end

    def _run(self, work: Callable[..., _T], *arguments: Any) -> _T:
        return self.result(self._start(work, *arguments))

    def _start(self, work: Callable[..., _T], *arguments: Any) -> Future[_T]:
        if getattr(_serving, "yes", False):
            # A finalizer runs in a thread of a pool, and must not wait for another to be free.
            return _done(work, *arguments)
        if self._is_closed:
            raise self._closed()
        try:
            return self._pool.submit(work, *arguments)
        except RuntimeError as error:
            if self._is_closed:
                raise self._closed() from error
            return _done(work, *arguments)  # no thread can be started

    def result(self, future: Future[_T]) -> _T:
        """Wait for a request; ends with its time-out."""
        try:
            return future.result()
        except CancelledError:
            raise self._closed() from None
        finally:
            del future  # which an error's traceback would keep, and so the error itself

    def _closed(self) -> ClosedError:
        return ClosedError(f"{self.url} is closed")

    def _failure(self, error: Exception, name: str, asked: str) -> Exception:
        """The error to raise for one of ``obstore``: it names object and request."""
        path = self.path(name)
        text = str(error)
        if isinstance(error, FileNotFoundError):
            return FileNotFoundError(errno.ENOENT, f"{asked}: there is no such object", path)
        kinds = (failures.PermissionDeniedError, failures.UnauthenticatedError)
        # Of a LIST only the text tells.
        if isinstance(error, kinds) or "403 Forbidden" in text or "401 Unauthorized" in text:
            return PermissionError(errno.EACCES, f"{asked}: {_first_line(error)}", path)
        if isinstance(error, ClosedError | CorruptionError):
            return error
        if "TimedOut" in text or "kind: Timeout" in text:
            reason = f"{asked}: no answer in time (request_timeout_s={self._timeout_s})"
            return TimeoutError(errno.ETIMEDOUT, reason, path)
        if isinstance(error, OSError):
            return error
        return OSError(errno.EIO, f"{asked}: {_first_line(error)}", path)

    def close(self) -> None:
        """End what waits to be sent, and send nothing more; does not wait.  May come twice."""
        self._is_closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)


def _aws_profile() -> Any:
    """Credentials by boto3 of the profile that AWS_PROFILE names; None: obstore finds them itself."""
    if "AWS_PROFILE" not in os.environ or "AWS_ACCESS_KEY_ID" in os.environ:
        return None
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"AWS_PROFILE={os.environ['AWS_PROFILE']} needs {error.name}, which is not installed: "
            "pip install boto3"
        ) from error
    return Boto3CredentialProvider()


def _refuse_fork() -> None:
    """Raise ForkedError if a parent of this process has sent requests: obstore would hang."""
    if _users and os.getpid() not in _users:
        raise ForkedError(
            "a process that has used object storage was forked, and the child cannot use it: "
            'start processes with multiprocessing\'s "spawn" or "forkserver"'
        )
    _users.add(os.getpid())


def _done(work: Callable[..., _T], *arguments: Any) -> Future[_T]:
    future: Future[_T] = Future()
    try:
        future.set_result(work(*arguments))
    except Exception as error:
        future.set_exception(error)
    try:
        return future
    finally:
        del future  # which an error's traceback would keep, and so the error itself


def _first_line(error: Exception) -> str:
    """The first line of an error's text; without the parts of URLs that may be secret."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    line = _ANY_URL.sub(lambda found: shown_url(found[0]), line)
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}..."
