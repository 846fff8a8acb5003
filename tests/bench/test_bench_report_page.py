"""The look of reports and charts: that of the page, in light and dark, on any screen, for everybody."""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from matplotlib.figure import Figure

import lsmkv.explore
from bench.experiments.filters.charts import OURS, contender_looks
from bench.experiments.filters.contenders import CONTENDERS
from bench.harness import colours, experiment
from bench.harness.charts import Chart
from bench.harness.experiment import Experiment
from bench.harness.records import column
from bench.harness.story import Story
from bench.harness.tables import Table
from browsers import browser, needs_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EXPLORE = Path(lsmkv.explore.__file__).parent
BENCH = Path(experiment.__file__).parents[1]
SHAPES = {"●": "o", "■": "s", "▲": "^", "◆": "D", "▼": "v"}
NARROW, WIDE = 360, 1366
MOST_DEGREES = 6  # the two nearest hues of charts are 15 degrees apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    number: int = column("what was asked", "setting")


def _draw(figure: Figure) -> None:
    figure.subplots().plot([1, 2], [1, 2], label="a series with a long name")


def _story(rows: list[Row]) -> Story:
    wide = [[f"row {number}", *["1,234,567.89"] * 12] for number in range(4)]
    headings = ["words", *[f"a long\nheading {number}" for number in range(12)]]
    charts = [Chart(name, f"The chart {name}", "How to read it.", _draw) for name in ("one", "two")]
    return Story(
        ["Something came out."],
        [Table("A wide table", headings, wide, note="With a note.")],
        charts,
        ["a promise was broken"],
        Table("The answer", headings[:3], [line[:3] for line in wide]),
    )


EXPERIMENT: Experiment[int, Row, Row] = Experiment(
    name="looks",
    title="A report",
    question="What does it look like?",
    method=("It is written, and looked at.",),
    row_type=Row,
    tasks=lambda plan: [plan.seed],
    measure=lambda task, directory: Row(number=task),
    rows=list,
    story=_story,
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    with pytest.raises(SystemExit, match="a promise was broken"):
        experiment.main(EXPERIMENT, ["--out", str(out), "--quick"])
    return out / "report.html"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as launched:
        yield launched


@contextmanager
def shown(chromium: Browser, report: Path, width: int, scheme: str) -> Iterator[Page]:
    context = chromium.new_context(
        viewport={"width": width, "height": 768},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    try:
        page = context.new_page()
        page.goto(report.as_uri())
        yield page
    finally:
        context.close()


def properties(style: str) -> list[tuple[str, str]]:
    """The custom properties that a style sets, minified or not, in its order."""
    return re.findall(r"(--[a-z]+): *(#[0-9a-f]+)", style.replace("#ffffff", "#fff"))


def test_reports_and_the_page_have_the_same_colours(report: Path) -> None:
    own = properties(report.read_text("utf-8"))
    names = {name for name, _ in own}
    assert {"--ink", "--ground", "--mark"} <= names
    page = properties((EXPLORE / "assets" / "explore.css").read_text("utf-8"))
    assert own == [(name, value) for name, value in page if name in names]


def hue(colour: str) -> float | None:
    """The hue in degrees; None for a grey."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    angle, saturation, _ = colorsys.rgb_to_hsv(red, green, blue)
    return 360 * angle if saturation > 0.25 else None


def test_a_kind_of_filter_has_the_hue_and_the_mark_of_the_page() -> None:
    """The page may have a lighter or a darker colour of that hue, by its ground."""
    source = (EXPLORE / "web" / "src" / "whatif.ts").read_text("utf-8")
    tones: dict[str, list[str]] = {}
    for name, value in properties((EXPLORE / "assets" / "explore.css").read_text("utf-8")):
        tones.setdefault(name, []).append(value)
    kinds = set()
    for text in re.findall(r"\{\s*policy: \"[^}]*\}", source):
        said = dict(re.findall(r"(\w+): \"([^\"]*)\"", text))
        colour, mark = colours.KINDS[said["policy"]]
        assert SHAPES[said["shape"]] == mark, text
        for shown in [said["colour"]] if "colour" in said else tones[f"--{said['tone']}"]:
            assert hue(shown) == pytest.approx(hue(colour), abs=MOST_DEGREES), text
        kinds.add(said["policy"])
    assert kinds == {"none", "bloom", "ribbon", "cuckoo", "binary-fuse"}


def test_colours_of_charts_stand_in_one_module() -> None:
    own = re.compile(r"[\"']#[0-9a-fA-F]{3,8}[\"']|color=[\"'](?!none)")
    files = [path for path in BENCH.rglob("*.py") if own.search(path.read_text("utf-8"))]
    assert [path.name for path in files] == ["colours.py"]


def test_no_two_contenders_look_alike() -> None:
    looks = contender_looks([contender.name for contender in CONTENDERS])
    groups = {contender.name: contender.group for contender in CONTENDERS}
    seen = {(look["color"], look["marker"], groups[name] in OURS) for name, look in looks.items()}
    assert len(seen) == len(CONTENDERS)
    assert looks["store/ribbon"] == {"color": colours.GREEN, "marker": "^"}


def test_series_of_one_kind_have_its_colour_and_marks_of_their_own() -> None:
    looks = colours.kind_looks(["bloom", "ribbon", "bloom", "blocked-bloom", "ribbon"])
    assert [look["color"] for look in looks[:3]] == [colours.BLUE, colours.GREEN, colours.BLUE]
    assert len({look["marker"] for look in looks}) == 5


def test_an_engine_looks_the_same_whichever_others_are_shown() -> None:
    alone = colours.named_series(["leveldb"], colours.ENGINES)
    others = colours.named_series(["mine", "leveldb", "lsmkv"], colours.ENGINES)
    assert alone["leveldb"] == others["leveldb"]
    assert len({tuple(look.items()) for look in others.values()}) == 3


@needs_browser
@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", NARROW),
        ("dark", WIDE),
        pytest.param("light", WIDE, marks=pytest.mark.slow),
        pytest.param("dark", NARROW, marks=pytest.mark.slow),
    ],
)
def test_axe_finds_no_serious_fault_in_a_report(
    chromium: Browser, report: Path, scheme: str, width: int
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with shown(chromium, report, width, scheme) as page:
        serious = [
            f"{fault['id']}: {fault['nodes'][0]['html'][:200]}"
            for fault in Axe().run(page).response["violations"]
            if fault["impact"] in ("serious", "critical")
        ]
    assert serious == []


@needs_browser
def test_on_a_narrow_screen_tables_and_charts_scroll_and_the_page_does_not(
    chromium: Browser, report: Path
) -> None:
    with shown(chromium, report, NARROW, "light") as page:
        assert page.evaluate("document.documentElement.scrollWidth") == NARROW
        wider = "element => element.scrollWidth > element.clientWidth"
        for name in ("A wide table", "The chart two."):
            scroller = page.get_by_role("group", name=name)
            assert scroller.evaluate(wider), name
            scroller.focus()
            assert scroller.evaluate("element => element === document.activeElement"), name


@needs_browser
def test_in_dark_colours_charts_stay_on_white(chromium: Browser, report: Path) -> None:
    ground = "element => getComputedStyle(element).backgroundColor"
    white = "rgb(255, 255, 255)"
    with shown(chromium, report, WIDE, "dark") as page:
        assert page.locator("body").evaluate(ground) != white
        assert page.locator("figure img").first.evaluate(ground) == white


@needs_browser
def test_in_a_printed_report_nothing_is_behind_a_scroll_bar(
    chromium: Browser, report: Path
) -> None:
    hidden = "all => all.filter(one => getComputedStyle(one).overflowX !== 'visible').length"
    with shown(chromium, report, NARROW, "light") as page:
        assert page.locator(".scroll").evaluate_all(hidden) > 0
        page.emulate_media(media="print")
        assert page.locator(".scroll").evaluate_all(hidden) == 0
