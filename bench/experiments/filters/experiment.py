"""The experiment ``filters``: its configurations and its method."""

from __future__ import annotations

from typing import Final

from bench.experiments.filters.contenders import CONTENDERS, missing
from bench.experiments.filters.measure import Found, add_times, count_one
from bench.experiments.filters.rows import Row, join
from bench.experiments.filters.story import story
from bench.experiments.filters.tasks import Task, effort_of, task_of
from bench.harness.experiment import Experiment, Plan


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
        "itself as its own constructor does. Each filter has keys of its own, and is then asked for "
        "other such keys: as many absent ones as give about 600 false positives (quick: 150) in all "
        "filters of a row, at least 40,000 (10,000) and at most 2,000,000 (300,000), so rates far below "
        "0.1 % have wide intervals.",
        "Intervals are of the rate over all filters of that shape, not of the one that happened to be "
        "built. All answers of a filter depend on how full it happens to be, so its false positives "
        "come together, the more so the fewer keys it has: filters are clusters of trials. The interval "
        "is Clopper and Pearson's, 95 %, for the effective number of trials: all trials divided by the "
        "design effect (the variance of hits between filters over the binomial one, at least 1) and by "
        "(t/t')², t and t' being the 97.5 % points of Student's distribution for filters - 1 and "
        "trials - 1 degrees of freedom, for the design effect is an estimate too (Korn and Graubard, "
        "Survey Methodology 24(2), 1998). They are not corrected for many comparisons: of a hundred "
        "rows of perfect filters, up to five miss.",
        "Rows store/... are the filters of tables: a policy's build of the keys' digests, and its "
        "may_contain on bits at an offset, hashing each key as a lookup does. The other filters of this "
        "package are objects for programs, with the same bits; the column code says which of them are "
        "interpreted. A table makes the same call from compiled code, where it takes less time.",
        "Times are taken after everything has been counted, by one process, contenders by turns, garbage "
        "collector off, the same keys for all. A turn covers as many small filters as make 3000 "
        "operations (quick: 1500), and there are 7 (3). The Python loop around the operation, some 20 "
        "ns, is included. The ratio of most to median tells how quiet the machine was.",
        "Left out: rolling filters (twice the keys at twice the rate, by design), foldable ones (a "
        "Bloom filter at a power of two) and those that remember known false positives (their rate "
        "depends on who asks).",
    ),
    row_type=Row,
    tasks=tasks,
    measure=count_one,
    rows=join,
    story=story,
    libraries=("scipy", "rbloom", "pybloom-live", "bitarray"),
    missing=missing,
    after=add_times,
)
