"""Where POSIX systems differ.

Not compiled: mypyc would leave out what is for another system than the one that writes the C.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys


def sync_data(descriptor: int) -> None:
    """Have the drive keep a file's bytes and length."""
    if sys.platform != "darwin":
        os.fdatasync(descriptor)
        return
    try:
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # fsync leaves the bytes in the drive's cache
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
            raise
        os.fsync(descriptor)


def bypass_page_cache(descriptor: int) -> None:
    """Where there is no O_DIRECT, have reads leave out the page cache."""
    if sys.platform == "darwin":
        fcntl.fcntl(descriptor, fcntl.F_NOCACHE, 1)
