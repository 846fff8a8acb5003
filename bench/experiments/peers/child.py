"""The process that measures one engine: ``python -m bench.experiments.peers.child``.

It takes lines of JSON: first a :class:`Setup`, then the name of a phase each.  It answers each with a
line: ``{"outcome": ...}``, or ``{"error": ...}``, after which it ends.  At the end of its input it
closes its stores and ends.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from dataclasses import asdict
from typing import Any

import bench.engines  # registers the built-in ones  # noqa: F401
from bench.experiments.peers.phases import PHASES
from bench.experiments.peers.stores import Setup, Stores
from bench.harness import plugins


def main() -> None:
    """Serve the parent until it has no more to ask."""
    # A library that prints must not answer in our place.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(content: dict[str, Any]) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    try:
        setup = Setup(**json.loads(sys.stdin.readline()))
        plugins.load(setup.plugins)
        stores = Stores(setup)
        gc.collect()
        gc.freeze()  # modules are not searched for garbage while something is timed
        answer({"outcome": None})
        for line in sys.stdin:
            answer({"outcome": asdict(PHASES[json.loads(line)](stores))})
        stores.close()
    except BaseException:
        answer({"error": traceback.format_exc()})
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
