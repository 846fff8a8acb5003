"""What results depend on besides the code: machine, file system, versions."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib import metadata
from typing import Any, Final

from lsmkv.filters import bloom
from lsmkv.storage.memory_limit import memory_limit_bytes

from .block_device import block_device, takes_direct_reads

LIBRARIES: Final = ("lsmkv", "mmh3", "librt", "xxhash", "zstandard")
"""What lsmkv itself runs on."""


def environment(directory: str, libraries: Iterable[str] = ()) -> dict[str, Any]:
    """Machine, file system and device of ``directory``, Python, and versions of distributions."""
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": processor(),
        "cpu_count": os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "memory_limit_bytes": memory_limit_bytes(),
        "file_system": file_system(directory),
        **block_device(directory),
        "direct_reads": takes_direct_reads(directory),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "lsmkv_build": build(),
        "versions": {name: version(name) for name in (*LIBRARIES, *libraries)},
    }


def build() -> str:
    """``"compiled"`` or ``"interpreted"``, as lsmkv's hot modules are here."""
    return "interpreted" if str(bloom.__file__).endswith(".py") else "compiled"


def version(distribution: str) -> str:
    """The version of a distribution, or ``"not installed"``."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def processor() -> str:
    """The processor's model."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def file_system(directory: str) -> str:
    """The type of the file system that holds ``directory``, or ``"unknown"``."""
    wanted = os.path.realpath(directory)
    best, found = "", "unknown"
    try:
        with open("/proc/self/mounts", encoding="utf-8") as file:
            for line in file:
                _, mount, kind, *_ = line.split()
                inside = wanted == mount or wanted.startswith(mount.rstrip("/") + "/")
                if inside and len(mount) >= len(best):
                    best, found = mount, kind
    except OSError:
        pass
    return found


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
