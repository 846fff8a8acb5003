"""Filters as objects, for programs and experiments: a module for each kind.

The names here are public in ``lsmkv.filters``.  A store never imports this package.
"""

from lsmkv.filters.family.blocked import BlockedBloomFilter as BlockedBloomFilter
from lsmkv.filters.family.classic import BloomFilter as BloomFilter
from lsmkv.filters.family.classic import SingleHashFilter as SingleHashFilter
from lsmkv.filters.family.counting import CountingBloomFilter as CountingBloomFilter
from lsmkv.filters.family.cuckoo import CuckooFilter as CuckooFilter
from lsmkv.filters.family.cuckoo import FilterFullError as FilterFullError
from lsmkv.filters.family.folding import FoldableBloomFilter as FoldableBloomFilter
from lsmkv.filters.family.fuse import BinaryFuseFilter as BinaryFuseFilter
from lsmkv.filters.family.known import GrowingKnownFalsePositives as GrowingKnownFalsePositives
from lsmkv.filters.family.known import KnownFalsePositives as KnownFalsePositives
from lsmkv.filters.family.partitioned import PartitionedBloomFilter as PartitionedBloomFilter
from lsmkv.filters.family.protocols import CountEstimate as CountEstimate
from lsmkv.filters.family.protocols import Delete as Delete
from lsmkv.filters.family.protocols import Fold as Fold
from lsmkv.filters.family.protocols import HashInsert as HashInsert
from lsmkv.filters.family.protocols import HashMembership as HashMembership
from lsmkv.filters.family.protocols import Insert as Insert
from lsmkv.filters.family.protocols import KeyCount as KeyCount
from lsmkv.filters.family.protocols import Membership as Membership
from lsmkv.filters.family.protocols import Save as Save
from lsmkv.filters.family.protocols import Union as Union
from lsmkv.filters.family.ribbon import RibbonFilter as RibbonFilter
from lsmkv.filters.family.rolling import RollingBloomFilter as RollingBloomFilter
from lsmkv.filters.family.rolling import RollingCountingFilter as RollingCountingFilter
from lsmkv.filters.family.rolling import Window as Window
from lsmkv.filters.family.saved import load as load
from lsmkv.filters.family.sorted_fingerprints import FingerprintFilter as FingerprintFilter
from lsmkv.filters.family.strategies import STRATEGIES as STRATEGIES
from lsmkv.filters.family.strategies import HashStrategy as HashStrategy
from lsmkv.filters.family.strategies import StrategyBloomFilter as StrategyBloomFilter
from lsmkv.filters.family.strategies import strategy_named as strategy_named
