"""The block device below a directory, as Linux describes it."""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import Any, Final

NOT_TOLD: Final = "not told"

_BLOCK_BYTES: Final = 4096
_VIRTUAL: Final = ("virtio", "/virtual/", "xen", "vmbus", "/vbd-")


def block_device(directory: str, sys: str = "/sys") -> dict[str, Any]:
    """Name, model, kind and queue of the device; ``"not told"`` where the system does not tell.

    ``device_rotational`` of a virtual device says nothing of the disk behind it.  ``sys`` is the place
    where sysfs is mounted.
    """
    found = _device_path(directory, sys)
    if found is None:
        keys = ("", "_model", "_rotational", "_virtual", "_scheduler", "_read_ahead_kib")
        return dict.fromkeys((f"device{key}" for key in keys), NOT_TOLD)
    whole = found if os.path.isdir(os.path.join(found, "queue")) else os.path.dirname(found)
    below = sorted(_listed(os.path.join(whole, "slaves")))
    name = os.path.basename(found)
    return {
        "device": f"{name} (on {', '.join(below)})" if below else name,
        "device_model": _text(whole, "device/model"),
        "device_rotational": {"0": "no", "1": "yes"}.get(
            _text(whole, "queue/rotational"), NOT_TOLD
        ),
        "device_virtual": "yes" if any(sign in whole for sign in _VIRTUAL) else "no sign of it",
        "device_scheduler": _chosen(_text(whole, "queue/scheduler")),
        "device_read_ahead_kib": _text(whole, "queue/read_ahead_kb"),
    }


def _device_path(directory: str, sys: str) -> str | None:
    """The device's directory in sysfs."""
    with contextlib.suppress(OSError):
        number = os.stat(directory).st_dev
        path = os.path.join(sys, "dev", "block", f"{os.major(number)}:{os.minor(number)}")
        if os.path.exists(path):
            return os.path.realpath(path)
    return None


def _listed(path: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(path)
    return []


def _text(directory: str, name: str) -> str:
    with (
        contextlib.suppress(OSError),
        open(os.path.join(directory, name), encoding="utf-8") as file,
    ):
        return file.read().strip() or NOT_TOLD
    return NOT_TOLD


def _chosen(schedulers: str) -> str:
    """The scheduler in brackets: ``none [mq-deadline] bfq``."""
    _, bracket, rest = schedulers.partition("[")
    return rest.partition("]")[0] if bracket else schedulers


def takes_direct_reads(directory: str) -> bool:
    """Whether a file in ``directory`` can be read past the page cache; it reads one."""
    path = os.path.join(directory, f"direct-reads-{os.getpid()}")
    direct = getattr(os, "O_DIRECT", 0)
    if not direct:
        return False
    try:
        with open(path, "wb") as file:
            file.write(bytes(_BLOCK_BYTES))
            os.fsync(file.fileno())
        descriptor = os.open(path, os.O_RDONLY | direct)
        try:
            with mmap.mmap(-1, _BLOCK_BYTES) as page:  # aligned, as direct reads ask for
                return os.preadv(descriptor, [page], 0) == _BLOCK_BYTES
        finally:
            os.close(descriptor)
    except OSError:
        return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
