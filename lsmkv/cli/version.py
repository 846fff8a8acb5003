"""The text of ``lsmkv --version``; needs neither click nor rich."""

from __future__ import annotations

import platform

import lsmkv
from lsmkv.filters import bloom
from lsmkv.runtime import reason_for_plain_python


def version() -> str:
    """The version and the build; why it is not compiled, if it was to be."""
    build = "interpreted" if str(bloom.__file__).endswith(".py") else "compiled"
    told = f"lsmkv {lsmkv.__version__} ({build}, Python {platform.python_version()})"
    reason = reason_for_plain_python()
    return f"{told}; not compiled: {reason}" if reason else told
