"""Modules that only POSIX systems have; one error explains their absence."""

from __future__ import annotations

try:
    import fcntl as fcntl
    from os import register_at_fork as register_at_fork
except ImportError as error:
    raise ImportError(
        "lsmkv's stores need a POSIX system, and this Python has no fcntl: use Linux or macOS "
        "(on Windows, the Windows Subsystem for Linux)"
    ) from error
