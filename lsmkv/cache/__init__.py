"""A cache for one writing process: diskcache's names, and no pickle.

>>> import lsmkv.cache, tempfile
>>> with tempfile.TemporaryDirectory() as path, lsmkv.cache.Cache(path) as cache:
...     cache.set(("user", 42), {"name": "Ada"}, expire=3600, tag="users")
...     cache.get(("user", 42)), cache.evict("users"), cache.get(("user", 42))
True
({'name': 'Ada'}, 1, None)

Unpickling runs code that the bytes name, so whoever can write to a cache of pickles can run code in the
programs that read it (CVE-2025-69872, in diskcache).  Here values are data: what MessagePack has.
"""

from lsmkv.cache.cache import Cache

__all__ = ["Cache"]
