"""The bits of filters, for the page's pictures of them."""

from __future__ import annotations

import base64
from typing import Final

import lsmkv
from lsmkv.explore import contract

MOST_SHOWN_BYTES: Final = 2048  # of a larger filter, such as a table's, the page shows this part


def filter_of(table: lsmkv.Table, number: int) -> contract.Filter | None:
    """The filter of a block, or of its table; None without one that lookups ask."""
    content = table.filter_bits(number)
    if not content:
        return None
    filter = table.filter(number)
    shown = content[:MOST_SHOWN_BYTES]
    return contract.Filter(
        table=table.number,
        block=None if filter.scope == "table" else number,
        policy=filter.policy,
        key_count=filter.key_count,
        bit_count=filter.bit_count,
        parameter=filter.probe_count,
        rate=filter.expected_rate,
        set_bits=int.from_bytes(content, "little").bit_count(),
        shown_bits=8 * len(shown),
        bits=base64.b64encode(shown).decode("ascii"),
    )
