// The history of the store's tables, replayed: flushes, compactions, bytes written and space.

import { max } from "d3-array";
import { axisBottom, axisLeft } from "d3-axis";
import { scaleLinear } from "d3-scale";
import { select } from "d3-selection";
import { line } from "d3-shape";
import type { App, State } from "./app";
import type { History, HistoryStep, HistoryTable } from "./contract";
import { drawingWidth, facts, fill, h, svg } from "./dom";
import { bytes, count, integer, significant } from "./format";
import { item } from "./items";
import { byteTicks, extentOf, liveAfter } from "./replay";

const KINDS: Record<HistoryStep["kind"], string> = {
  state: "as the history begins",
  flush: "flush or load: new tables are added",
  compaction: "compaction: tables are merged",
  move: "move: tables go down a level, unwritten",
};
const LEFT = 82; // room for the names of levels and the ticks of bytes
const RIGHT = 92;
const TREE_HEIGHT = 200;
const ROW_HEIGHT = 20;
const TOTALS_HEIGHT = 190;
const FOOT = 40; // room for the axis of steps and its name

export class TimeView {
  readonly element = h("section", { class: "time card", "aria-label": "Time" });
  #steps: HistoryStep[] = [];
  #at = 0;
  #slider = h("input", {
    type: "range",
    id: "time",
    min: 0,
    step: 1,
    "aria-label": "Step of the history",
  });
  #note = h("p", { class: "hint" });
  #shown = h("div", { class: "shown" });
  #extent = extentOf([]);

  constructor(app: App) {
    this.#slider.addEventListener("input", () => {
      this.goTo(Number(this.#slider.value));
    });
    fill(
      this.element,
      h("h2", {}, "How this store came to be"),
      this.#note,
      this.#slider,
      this.#shown,
    );
    app.watch((state, before) => {
      if (state.model !== before.model || state === before) this.#take(state, before);
    });
  }

  goTo(step: number): void {
    if (this.#steps.length === 0) return;
    this.#at = Math.max(0, Math.min(this.#steps.length - 1, step));
    this.#slider.value = String(this.#at);
    this.#show();
  }

  /** Takes a history over; it stays at the step on show, and at the end if it was there. */
  #take(state: State, before: State): void {
    const history: History = state.model.page.history;
    const gone = history.skipped - before.model.page.history.skipped;
    const wasAtEnd = this.#at >= this.#steps.length - 1;
    this.#steps = history.steps;
    this.#extent = extentOf(this.#steps);
    const isEmpty = this.#steps.length === 0;
    this.#slider.hidden = this.#shown.hidden = isEmpty;
    const earlier = history.skipped + (history.begins_empty ? 0 : 1);
    const { source } = state.model.page;
    this.#note.textContent = isEmpty
      ? source.generation === null
        ? "No table was written yet."
        : `This is generation ${integer(source.generation)} of a published store. Its history stays with the ` +
          "store that published it."
      : "Each edit of the manifest, as it happened" +
        (earlier > 0 ? "; the manifest has no record of what came before the first." : ".");
    this.#slider.max = String(Math.max(0, this.#steps.length - 1));
    this.goTo(wasAtEnd ? this.#steps.length - 1 : this.#at - gone);
  }

  #show(): void {
    const step = item(this.#steps, this.#at);
    const kind = KINDS[step.kind];
    const written = step.flushed_bytes + step.compacted_bytes;
    const when = step.at_s === null ? "" : `, after ${significant(step.at_s, 3)} s`;
    fill(
      this.#shown,
      h(
        "p",
        {},
        `Step ${this.#at + 1} of ${this.#steps.length}${when}: `,
        h("b", {}, kind),
        `. ${count(step.added.length, "table")} added, ${integer(step.removed.length)} removed, ` +
          `${bytes(step.written_bytes)} written.`,
      ),
      drawnTree(liveAfter(this.#steps, this.#at), step, this.#extent),
      facts([
        [
          "tables hold",
          `${count(step.live_entries, "entry", "entries")}, ${bytes(step.live_bytes)}`,
        ],
        ["flushed so far", bytes(step.flushed_bytes)],
        ["compacted so far", bytes(step.compacted_bytes)],
        [
          "written per flushed byte",
          step.flushed_bytes ? significant(written / step.flushed_bytes, 3) : "nothing flushed yet",
        ],
      ]),
      drawnTotals(this.#steps, this.#at),
    );
  }
}

/** The tables after a step, in the scale of the whole history; the new ones stand out. */
function drawnTree(
  tables: HistoryTable[],
  step: HistoryStep,
  extent: ReturnType<typeof extentOf>,
): SVGElement {
  const width = drawingWidth();
  const runs = new Map<string, HistoryTable[]>();
  const order = (t: HistoryTable): number => t.level * 1e9 - t.run;
  for (const table of [...tables].sort((a, b) => order(a) - order(b) || a.number - b.number)) {
    const name = `${table.level}/${table.run}`;
    runs.set(name, [...(runs.get(name) ?? []), table]);
  }
  const row = Math.max(6, Math.min(ROW_HEIGHT, TREE_HEIGHT / extent.runs - 4));
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${extent.runs * (row + 4) + 6}`,
    role: "img",
    "aria-label": `${count(tables.length, "table")} in ${count(runs.size, "run")}`,
  });
  const fresh = new Set(step.added.map((table) => table.number));
  const x = scaleLinear()
    .domain([0, extent.widest])
    .range([LEFT, width - 4]);
  let y = 4;
  let level = -1;
  for (const own of runs.values()) {
    const first = item(own, 0);
    if (first.level !== level) {
      level = first.level;
      picture.append(svg("text", { x: 0, y: y + row / 2 + 4 }, `level ${level}`));
    }
    let from = 0;
    for (const table of own) {
      const left = x(from);
      const isFresh = fresh.has(table.number);
      picture.append(
        svg(
          "rect",
          {
            x: left,
            y,
            width: Math.max(1, x(from + table.size_bytes) - left - 1),
            height: row,
            class: isFresh ? "fresh" : "table",
          },
          svg("title", {}, `table ${table.number}: ${bytes(table.size_bytes)}`),
        ),
      );
      from += table.size_bytes;
    }
    y += row + 4;
  }
  return picture;
}

/** Bytes written and space, over the steps. */
function drawnTotals(steps: HistoryStep[], at: number): SVGElement {
  const width = drawingWidth();
  const height = TOTALS_HEIGHT;
  const series: {
    text: string;
    dash: string;
    value: (s: HistoryStep) => number;
  }[] = [
    { text: "flushed", dash: "", value: (s) => s.flushed_bytes },
    { text: "compacted", dash: "7 3", value: (s) => s.compacted_bytes },
    { text: "space", dash: "2 3", value: (s) => s.live_bytes },
  ];
  const most = max(steps, (s) => Math.max(s.flushed_bytes, s.compacted_bytes, s.live_bytes)) ?? 1;
  const x = scaleLinear()
    .domain([0, Math.max(1, steps.length - 1)])
    .range([LEFT, width - RIGHT]);
  const y = scaleLinear()
    .domain([0, most])
    .range([height - FOOT, 8]);
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "Bytes flushed and compacted so far, and the space of all tables",
  });
  select(picture)
    .append("g")
    .attr("class", "axis")
    .attr("transform", `translate(0 ${height - FOOT})`)
    .call(
      axisBottom(x)
        .tickValues(x.ticks(Math.floor(width / 90)).filter(Number.isInteger))
        .tickFormat((n) => integer(Number(n) + 1)),
    );
  const middle = (LEFT + width - RIGHT) / 2;
  picture.append(
    svg("text", { x: middle, y: height - 4, "text-anchor": "middle" }, "step of the history"),
  );
  select(picture)
    .append("g")
    .attr("class", "axis")
    .attr("transform", `translate(${LEFT} 0)`)
    .call(
      axisLeft(y)
        .tickValues(byteTicks(most))
        .tickFormat((n) => bytes(Number(n))),
    );
  const ends = series
    .map((one) => ({ ...one, end: y(one.value(item(steps, steps.length - 1))) }))
    .sort((a, b) => a.end - b.end);
  let above = -20;
  for (const one of ends) {
    const path = line<HistoryStep>(
      (_, i) => x(i),
      (s) => y(one.value(s)),
    )(steps);
    if (path)
      picture.append(
        svg("path", {
          d: path,
          class: "curve chosen",
          "stroke-dasharray": one.dash,
        }),
      );
    above = Math.max(one.end + 4, above + 13);
    const place = { x: width - RIGHT + 6, y: above };
    picture.append(svg("text", place, one.text));
  }
  picture.append(svg("line", { x1: x(at), x2: x(at), y1: 8, y2: height - FOOT, class: "now" }));
  return picture;
}
