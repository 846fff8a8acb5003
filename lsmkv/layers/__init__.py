"""Views of a store through prefixes and codecs.  Layers import only public names.

:meth:`lsmkv.DB.prefixed` makes the views of this package; :mod:`lsmkv.typed` builds on it.
"""

from lsmkv.layers.prefixed import (
    PrefixedBatch,
    PrefixedDB,
    PrefixedMapping,
    PrefixedSnapshot,
)

__all__ = ["PrefixedBatch", "PrefixedDB", "PrefixedMapping", "PrefixedSnapshot"]
