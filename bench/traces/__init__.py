"""Published forms of traces, each read by one small file.

Importing the package registers the built-in ones.
"""

from __future__ import annotations

from .base import register
from .cs265 import CS265
from .plain import Plain
from .rocksdb import RocksDBTrace
from .tectonic import Tectonic
from .twitter import Twitter
from .ycsb import YCSB

for _format in (Twitter(), RocksDBTrace(), YCSB(), Tectonic(), CS265(), Plain()):
    register(_format)
