"""The charts of ``figures``: curves of theory, with the points of real filters on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bench.experiments.figures import curves
from bench.experiments.figures.curves import Curve
from bench.harness.charts import Chart, legend_below, percent_axis, plain_axis
from bench.harness.colours import THEORY, kind_looks, series
from lsmkv import filters

_STEPS: Final = 200
_KINDS: Final = {
    "one hash": "single-hash",
    "sorted fingerprints": "fingerprints",
    "k arrays": "partitioned",
    "Bloom": "bloom",
}


def charts() -> list[Chart]:
    """Rate by fill, rate by k, bits set, an overfull filter, size by keys, and where lines cross."""
    return [
        Chart(
            "figures-fill",
            "The rate is the share of bits set, to the power of k",
            "Lines: fill^k; marks: Bloom filters of 2,048 bits filled up to that share, with 95 % "
            "intervals.",
            _draw_fill,
            width=7.2,
        ),
        Chart(
            "figures-probes",
            "The rate by the number of probes",
            "Lines: the exact rate; marks: filters of 100 keys, with 95 % intervals. The best k is near "
            "0.69 times the bits per key.",
            _draw_probes,
            width=7.2,
        ),
        Chart(
            "figures-setting",
            "Bits set by keys, for several numbers of probes",
            "Left: filters of 1,000 bits; right: of 100,000. Lines: theory; marks: filters, with 95 % "
            "intervals.",
            _draw_setting,
            width=8.6,
        ),
        Chart(
            "figures-overfull",
            "A filter for 1,000 keys at 1 %, with more keys",
            "Left: bits set; right: false positives. Lines: theory; marks: filters, with 95 % "
            "intervals.",
            _draw_overfull,
            width=8.6,
        ),
        Chart(
            "figures-bits",
            "Size by the number of keys at 1 %",
            "Lines: theory, and the lower bound of any filter; marks: filters that were built. "
            "The k arrays lie on the Bloom filter's line.",
            _draw_bits,
            width=7.2,
            height=5.0,
        ),
        Chart(
            "figures-crossover",
            "Where one hash beats sorted fingerprints, at 1 %",
            "Size by keys in theory: N log2(N/p), N/p, and the Bloom filter's. The first two cross at "
            "p 2^(1/p) keys, 1.27e28.",
            _draw_crossover,
            width=7.2,
        ),
    ]


def _draw_fill(figure: Figure) -> None:
    axes = figure.subplots()
    _draw(axes, curves.rate_by_fill(), [0.01 + 0.99 * i / _STEPS for i in range(_STEPS + 1)])
    axes.set_yscale("log")
    axes.set_ylim(1e-6, 1.4)
    percent_axis(axes.xaxis)
    percent_axis(axes.yaxis)
    axes.set_xlabel("bits set, %")
    axes.set_ylabel("false positives, %")
    legend_below(figure, axes, 4)


def _draw_probes(figure: Figure) -> None:
    axes = figure.subplots()
    _draw(axes, curves.rate_by_probes(), range(1, curves.MOST_PROBES + 1))
    axes.set_yscale("log")
    percent_axis(axes.yaxis)
    plain_axis(axes.xaxis)
    axes.set_xlabel("probes, k")
    axes.set_ylabel("false positives, %")
    legend_below(figure, axes, 3)


def _draw_overfull(figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    keys = range(0, curves.CROWDS[-1] + 1, 50)
    for axes, found, label in (
        (left, curves.fill_by_keys(), "bits set, %"),
        (right, curves.rate_by_keys(), "false positives, %"),
    ):
        _draw(axes, found, keys if axes is left else keys[1:])
        axes.axvline(curves.CAPACITY, **THEORY, label="the keys that it is for")
        if axes is right:
            axes.set_yscale("log")
            axes.set_ylim(1e-5, 1.4)
        percent_axis(axes.yaxis)
        plain_axis(axes.xaxis)
        axes.set_xlabel("keys")
        axes.set_ylabel(label)
        axes.legend(loc="lower right")


def _draw_setting(figure: Figure) -> None:
    panels = figure.subplots(1, 2, sharey=True)
    for axes, bit_count in zip(panels, curves.SETTING_BITS, strict=True):
        _draw(axes, curves.fill_by_probes(bit_count), range(0, curves.SETTING_KEYS[-1] + 1, 10))
        axes.set_title(f"{bit_count:,} bits")
        percent_axis(axes.yaxis)
        plain_axis(axes.xaxis)
        axes.set_xlabel("keys")
    panels[0].set_ylabel("bits set, %")
    legend_below(figure, panels[0], 4)


def _draw_crossover(figure: Figure) -> None:
    axes = figure.subplots()
    keys = [10 ** (1 + 29 * i / _STEPS) for i in range(_STEPS + 1)]
    rate = curves.RATE
    lines: tuple[tuple[str, str, Callable[[float], float]], ...] = (
        ("sorted fingerprints: N log2(N/p)", "fingerprints", lambda n: math.log2(n / rate)),
        ("one hash: N/p", "single-hash", lambda n: 1 / rate),
        ("Bloom: 1.44 N log2(1/p)", "bloom", lambda n: math.log2(1 / rate) / math.log(2)),
    )
    looks = kind_looks([kind for _, kind, _ in lines])
    for (name, _, bits), look in zip(lines, looks, strict=True):
        axes.plot(keys, [bits(n) for n in keys], color=look["color"], label=name)
    axes.axvline(filters.crossover_keys(rate), **THEORY, label="they cross")
    axes.set_xscale("log")
    axes.set_xlabel("keys, N")
    axes.set_ylabel("bits per key, M/N")
    legend_below(figure, axes, 2)


def _draw_bits(figure: Figure) -> None:
    axes = figure.subplots()
    keys = [10 ** (1 + 4 * i / _STEPS) for i in range(_STEPS + 1)]
    found = curves.bits_by_keys()
    _draw(axes, found, keys, kind_looks([_KINDS[curve.name.partition(":")[0]] for curve in found]))
    bound = [filters.lower_bound_bits(round(n), curves.RATE) for n in keys]
    axes.plot(keys, bound, **THEORY, label="lower bound: N log2(1/p)")
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("keys, N")
    axes.set_ylabel("bits, M")
    legend_below(figure, axes, 2)


def _draw(
    axes: Any,
    found: Sequence[Curve],
    xs: Sequence[float],
    looks: Sequence[dict[str, Any]] = (),
) -> None:
    """Lines of theory with their measured points, one look for each curve."""
    for curve, look in zip(found, looks or map(series, range(len(found))), strict=True):
        theory: Callable[[float], float] = curve.theory
        axes.plot(
            xs,
            [theory(x) for x in xs],
            color=look["color"],
            linewidth=1.1,
            label=f"{curve.name}, theory",
        )
        values = [point.value for point in curve.points]
        reach = (
            [point.value - point.low for point in curve.points],
            [point.high - point.value for point in curve.points],
        )
        axes.errorbar(
            [point.x for point in curve.points],
            values,
            reach,
            linestyle="none",
            capsize=2,
            elinewidth=0.9,
            label=f"{curve.name}, measured",
            **look,
        )
