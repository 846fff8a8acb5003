"""Filters: sets that take a few bits per key, and err in one direction only.

``docs/filters.md`` says which filter suits what.

* :mod:`~lsmkv.filters.maths`: sizes, exact rates and memory; no bits.
* What tables embed: :mod:`~lsmkv.filters.hashing`, the bits of each kind
  (:mod:`~lsmkv.filters.bloom`, :mod:`~lsmkv.filters.ribbon`, :mod:`~lsmkv.filters.grafite`),
  :mod:`~lsmkv.filters.policy` (the interface of a kind to tables), :mod:`~lsmkv.filters.keys`
  (which part of a key goes in).
* :mod:`~lsmkv.filters.family`: filters as objects, a class for each kind.

Counts are 0 or more, and error rates lie between 0 and 1: other arguments raise a ``ValueError``.

**Adding a kind**, say ``quotient``, for tables to embed and programs to use:

1. ``maths/layouts.py``: functions for its size and its rate, named below if users call them.
2. ``quotient.py`` beside ``ribbon.py``: ``build`` and ``may_contain`` on plain bytes.  It joins
   ``INSIDE`` of ``tests/whole/test_layering.py``, and ``COMPILED`` of ``tools/mypyc_mend.py`` if
   compiling makes it faster.
3. ``policy.py``: a :class:`FilterPolicy` with a free scheme, listed in ``POLICIES``.  Its name joins
   ``FilterPolicyName`` in ``lsmkv/options.py``.
4. ``family/quotient.py``: a class with a free ``KIND``, named in ``family/__init__.py``.
5. ``KINDS`` of ``tests/support/filter_kinds.py``, which runs every common test on it, and the tables
   of ``docs/filters.md``, which tests compare with the code.
"""

import importlib
import types
import typing

from lsmkv.filters.fuse import FilterBuildError as FilterBuildError
from lsmkv.filters.hashing import hash_key as hash_key
from lsmkv.filters.keys import DelimitedPrefix as DelimitedPrefix
from lsmkv.filters.keys import FilterKey as FilterKey
from lsmkv.filters.keys import FixedPrefix as FixedPrefix
from lsmkv.filters.keys import WholeKey as WholeKey
from lsmkv.filters.keys import filter_key_from_spec as filter_key_from_spec
from lsmkv.filters.maths.allocation import expected_wasted_reads as expected_wasted_reads
from lsmkv.filters.maths.allocation import memory_bits as memory_bits
from lsmkv.filters.maths.allocation import monkey_error_rates as monkey_error_rates
from lsmkv.filters.maths.layouts import blocked_bits_for as blocked_bits_for
from lsmkv.filters.maths.layouts import blocked_lines_for as blocked_lines_for
from lsmkv.filters.maths.layouts import blocked_probes_for as blocked_probes_for
from lsmkv.filters.maths.layouts import blocked_rate as blocked_rate
from lsmkv.filters.maths.layouts import cuckoo_bits_for as cuckoo_bits_for
from lsmkv.filters.maths.layouts import cuckoo_buckets_for as cuckoo_buckets_for
from lsmkv.filters.maths.layouts import cuckoo_fingerprint_bits_for as cuckoo_fingerprint_bits_for
from lsmkv.filters.maths.layouts import cuckoo_rate as cuckoo_rate
from lsmkv.filters.maths.layouts import fuse_bits_for as fuse_bits_for
from lsmkv.filters.maths.layouts import fuse_fingerprint_bits_for as fuse_fingerprint_bits_for
from lsmkv.filters.maths.layouts import fuse_rate as fuse_rate
from lsmkv.filters.maths.layouts import grafite_bits_for as grafite_bits_for
from lsmkv.filters.maths.layouts import grafite_range_rate as grafite_range_rate
from lsmkv.filters.maths.layouts import grafite_rate as grafite_rate
from lsmkv.filters.maths.layouts import grafite_shape as grafite_shape
from lsmkv.filters.maths.layouts import ribbon_bits_for as ribbon_bits_for
from lsmkv.filters.maths.layouts import ribbon_columns_for as ribbon_columns_for
from lsmkv.filters.maths.layouts import ribbon_rate as ribbon_rate
from lsmkv.filters.maths.layouts import ribbon_share as ribbon_share
from lsmkv.filters.maths.layouts import ribbon_slots_for as ribbon_slots_for
from lsmkv.filters.maths.rates import crossover_keys as crossover_keys
from lsmkv.filters.maths.rates import each_rate as each_rate
from lsmkv.filters.maths.rates import either_rate as either_rate
from lsmkv.filters.maths.rates import fingerprint_bits_for as fingerprint_bits_for
from lsmkv.filters.maths.rates import fingerprint_rate as fingerprint_rate
from lsmkv.filters.maths.rates import keys_that_fit as keys_that_fit
from lsmkv.filters.maths.rates import over_lower_bound as over_lower_bound
from lsmkv.filters.maths.rates import partitioned_bits_for as partitioned_bits_for
from lsmkv.filters.maths.rates import partitioned_bits_roughly as partitioned_bits_roughly
from lsmkv.filters.maths.rates import partitioned_probes_for as partitioned_probes_for
from lsmkv.filters.maths.rates import partitioned_rate as partitioned_rate
from lsmkv.filters.maths.rates import rate_that_fits as rate_that_fits
from lsmkv.filters.maths.rates import single_hash_bits_for as single_hash_bits_for
from lsmkv.filters.maths.rates import single_hash_rate as single_hash_rate
from lsmkv.filters.maths.rates import sorted_bits_for as sorted_bits_for
from lsmkv.filters.maths.sizing import MAX_PROBES as MAX_PROBES
from lsmkv.filters.maths.sizing import bits_for as bits_for
from lsmkv.filters.maths.sizing import classic_rate as classic_rate
from lsmkv.filters.maths.sizing import exact_rate as exact_rate
from lsmkv.filters.maths.sizing import filter_bytes_for as filter_bytes_for
from lsmkv.filters.maths.sizing import keys_for as keys_for
from lsmkv.filters.maths.sizing import lower_bound_bits as lower_bound_bits
from lsmkv.filters.maths.sizing import probes_for as probes_for
from lsmkv.filters.maths.sizing import rate_for as rate_for
from lsmkv.filters.policy import PRIVATE_SCHEMES as PRIVATE_SCHEMES
from lsmkv.filters.policy import FilterPolicy as FilterPolicy
from lsmkv.filters.policy import policies as policies
from lsmkv.filters.policy import policy_for as policy_for
from lsmkv.filters.policy import policy_named as policy_named

if typing.TYPE_CHECKING:
    from lsmkv.filters.family import *  # noqa: F403
else:  # hidden from type checkers, which would take any name for one of ours

    def __getattr__(name):
        """Load a module of this package, or a name of the family."""
        if name == "__all__":
            names = vars(importlib.import_module(f"{__name__}.family")) | globals()
            return [
                name
                for name, value in names.items()
                if not name.startswith("_") and not isinstance(value, types.ModuleType)
            ]
        if not name.startswith("_"):
            module = f"{__name__}.{name}"
            try:
                return importlib.import_module(module)
            except ModuleNotFoundError as error:
                if error.name != module:
                    raise
            family = vars(importlib.import_module(f"{__name__}.family"))
            if name in family:
                globals()[name] = family[name]
                return family[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        inside = {"importlib", "types", "typing"}
        return sorted({*globals(), *__getattr__("__all__")} - inside)
