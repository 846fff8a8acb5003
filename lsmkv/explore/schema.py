"""The JSON Schema of the page's data; its types are generated from this."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from lsmkv.explore import messages
from lsmkv.explore.contract import VERSION, Page

ROOTS: Final = (
    Page,
    messages.LookupRequest,
    messages.LookupReply,
    messages.BlockReply,
    messages.Pulse,
    messages.Problem,
)
"""The structures that travel by themselves."""


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of everything that travels; ``$defs`` has each structure by name."""
    _, components = msgspec.json.schema_components(ROOTS, ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "lsmkv explore",
        "$comment": f"version {VERSION}",
        "anyOf": [{"$ref": f"#/$defs/{root.__name__}"} for root in ROOTS],
        "$defs": components,
    }


if __name__ == "__main__":  # python -m lsmkv.explore.schema > contract.schema.json
    print(json.dumps(schema(), indent=1))
