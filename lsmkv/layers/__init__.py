"""Ordered mappings: what all of them share, and parts of them through prefixes and codecs.

:meth:`lsmkv.DB.prefixed` makes the mappings of this package; :mod:`lsmkv.typed` builds on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lsmkv.runtime import loaded_when_used

if TYPE_CHECKING:
    from lsmkv.layers.prefixed import PrefixedBatch as PrefixedBatch
    from lsmkv.layers.prefixed import PrefixedDB as PrefixedDB
    from lsmkv.layers.prefixed import PrefixedMapping as PrefixedMapping
    from lsmkv.layers.prefixed import PrefixedSnapshot as PrefixedSnapshot
    from lsmkv.layers.traced import TracedDB as TracedDB

_HOMES: Final = {
    "lsmkv.layers.prefixed": ("PrefixedBatch", "PrefixedDB", "PrefixedMapping", "PrefixedSnapshot"),
    "lsmkv.layers.traced": ("TracedDB",),
}

__all__ = ["PrefixedBatch", "PrefixedDB", "PrefixedMapping", "PrefixedSnapshot", "TracedDB"]

if not TYPE_CHECKING:  # type checkers would take any name for one of ours
    __getattr__, __dir__ = loaded_when_used(__name__, _HOMES)
