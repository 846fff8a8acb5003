"""The bits of filters, for the page's pictures of them."""

from __future__ import annotations

import base64
from typing import Final

from lsmkv.explore import contract
from lsmkv.inspection.store_info import filter_rate, filter_shape
from lsmkv.sstable.reader import TableReader

MOST_SHOWN_BYTES: Final = 2048
"""Of a larger filter, such as a table's, the page shows this part."""


def filter_of(table: TableReader, number: int) -> contract.Filter | None:
    """The filter of a block, or of its table; None without one that lookups ask."""
    content = table.filters.bits_of(number)
    if not content:
        return None
    bits, key_count, parameter = filter_shape(table, number)
    shown = content[:MOST_SHOWN_BYTES]
    return contract.Filter(
        table=table.meta.number,
        block=None if table.filters.per_table else number,
        policy=table.filter_policy.name,
        key_count=key_count,
        bit_count=bits,
        parameter=parameter,
        rate=None if key_count is None else filter_rate(table, bits, key_count, parameter),
        shown_bits=8 * len(shown),
        bits=base64.b64encode(shown).decode("ascii"),
    )
