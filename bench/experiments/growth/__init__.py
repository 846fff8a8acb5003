"""``python -m bench growth``: what operations cost, and memory takes, as a store grows.

Processes that measure import parts of this package, so it imports nothing by itself.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str]) -> None:
    """The command: measure, write, and say what came out."""
    from bench.experiments.growth.experiment import EXPERIMENT
    from bench.harness import experiment

    experiment.main(EXPERIMENT, arguments)
