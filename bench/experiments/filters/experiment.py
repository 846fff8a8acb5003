"""The experiment ``filters``: its configurations and its method."""

from __future__ import annotations

from typing import Final

from ...harness.experiment import Experiment, Plan
from ...harness.seeds import Figure
from .contenders import CONTENDERS, missing
from .measure import Found, add_times, count_one
from .rows import Row, join
from .story import story
from .tasks import Task, effort_of, task_of


def tasks(plan: Plan) -> list[Task]:
    """Everything that is counted, in the order of the rows."""
    effort = effort_of(plan)
    present = [contender for contender in CONTENDERS if contender.is_installed()]
    return [
        task_of(contender.name, key_count, error_rate, plan.seed, effort)
        for key_count in effort.key_counts
        for error_rate in effort.error_rates
        for contender in present
        if contender.offers(error_rate)
    ]


EXPERIMENT: Final[Experiment[Task, Found, Row]] = Experiment(
    name="filters",
    title="Filters and their peers",
    question="How large is each filter, how often does it err, against the rate asked for and the one "
    "in theory, and how long does an operation take? For the keys of a block, of ten blocks and of a "
    "whole table.",
    method=(
        "Everybody gets the same random 16-byte keys and the same requested error rate, and sizes "
        "itself as its own constructor does. Each filter is asked for other such keys: as many "
        "absent ones as give about 600 false positives (quick: 150) in all filters of a row, at "
        "least 40,000 and at most 2,000,000.",
        "Intervals are of the rate over all filters of that shape. A filter's false positives "
        "come together, so filters are clusters of trials: the interval is Clopper and Pearson's, "
        "95 %, for the effective number of trials (Korn and Graubard, Survey Methodology 24(2), "
        "1998). Of a hundred rows of perfect filters, up to five miss.",
        "Rows store/... are the filters of tables: a policy's build of the keys' digests, and its "
        "may_contain on bits at an offset. The other filters of this package are objects for "
        "programs, with the same bits.",
        "Times are taken after everything has been counted, by one process, contenders by turns, "
        "garbage collector off, the same keys for all. The Python loop around the operation, some "
        "20 ns, is included. Left out: rolling and foldable filters, and those that remember "
        "known false positives.",
    ),
    row_type=Row,
    tasks=tasks,
    measure=count_one,
    rows=join,
    story=story,
    libraries=("rbloom", "pybloom-live", "bitarray"),
    missing=missing,
    after=add_times,
    figures=(Figure("false-positive rate", "false_positive_count", "trial_count"),),
)
