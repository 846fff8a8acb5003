// The history of the store's tables, replayed: flushes, compactions, bytes written and space.

import { max } from "d3-array";
import { axisBottom, axisLeft } from "d3-axis";
import { scaleLinear } from "d3-scale";
import { select } from "d3-selection";
import { line } from "d3-shape";
import type { App, State } from "./app";
import type { History, HistoryStep, HistoryTable } from "./contract";
import { button, facts, fill, h, svg } from "./dom";
import { bytes, count, integer, significant } from "./format";
import { item } from "./model";
import { byteTicks, liveAfter } from "./replay";

const KINDS: Record<HistoryStep["kind"], { text: string; colour: string }> = {
  state: { text: "as the history begins", colour: "#8a949e" },
  flush: { text: "flush: a memtable becomes a table", colour: "#0072b2" },
  compaction: { text: "compaction: tables are merged", colour: "#e69f00" },
  move: { text: "move: tables go down a level, unwritten", colour: "#cc79a7" },
};
const PLAY_MS = 10_000;
const FASTEST_MS = 40;
const SLOWEST_MS = 700;
const WIDTH = 560;

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
  #play = button("Play", () => this.#toggle());
  #shown = h("div");
  #timer = 0;

  constructor(app: App) {
    this.#slider.addEventListener("input", () => {
      this.pause();
      this.goTo(Number(this.#slider.value));
    });
    app.watch((state, before) => {
      if (state.model !== before.model || state === before) this.#build(state);
    });
  }

  goTo(step: number): void {
    if (this.#steps.length === 0) return;
    this.#at = Math.max(0, Math.min(this.#steps.length - 1, step));
    this.#slider.value = String(this.#at);
    this.#show();
  }

  /** Plays the whole history in about ten seconds. */
  play(): void {
    this.pause();
    if (this.#steps.length === 0) return;
    if (this.#at >= this.#steps.length - 1) this.goTo(0);
    this.#play.textContent = "Pause";
    const pause = Math.max(FASTEST_MS, Math.min(SLOWEST_MS, PLAY_MS / this.#steps.length));
    this.#timer = window.setInterval(() => {
      if (this.#at >= this.#steps.length - 1) this.pause();
      else this.goTo(this.#at + 1);
    }, pause);
  }

  pause(): void {
    clearInterval(this.#timer);
    this.#timer = 0;
    this.#play.textContent = "Play";
  }

  #toggle(): void {
    if (this.#timer) this.pause();
    else this.play();
  }

  #build(state: State): void {
    const history: History = state.model.page.history;
    this.#steps = history.steps;
    const heading = h("h2", {}, "Time");
    if (this.#steps.length === 0) {
      fill(this.element, heading, h("p", { class: "hint" }, "No table was written yet."));
      return;
    }
    const before = history.skipped + (history.begins_empty ? 0 : 1);
    this.#slider.max = String(this.#steps.length - 1);
    fill(
      this.element,
      heading,
      h(
        "p",
        { class: "hint" },
        "Each edit of the manifest, as it happened",
        before > 0 ? "; the manifest has no record of what came before the first." : ".",
      ),
      h("div", { class: "player" }, this.#play, this.#slider),
      this.#shown,
    );
    this.goTo(this.#steps.length - 1);
  }

  #show(): void {
    const step = item(this.#steps, this.#at);
    const kind = KINDS[step.kind];
    const written = step.flushed_bytes + step.compacted_bytes;
    const sign = h("span", { class: "swatch" });
    sign.style.setProperty("background", kind.colour);
    const when = step.at_s === null ? "" : `, after ${significant(step.at_s, 3)} s`;
    fill(
      this.#shown,
      h(
        "p",
        {},
        `Step ${this.#at + 1} of ${this.#steps.length}${when}: `,
        sign,
        h("b", {}, kind.text),
        `. ${count(step.added.length, "table")} in, ${integer(step.removed.length)} out, ` +
          `${bytes(step.written_bytes)} written.`,
      ),
      drawnTree(liveAfter(this.#steps, this.#at), step),
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

function drawnTree(tables: HistoryTable[], step: HistoryStep): SVGElement {
  const runs = new Map<string, HistoryTable[]>();
  const order = (t: HistoryTable): number => t.level * 1e9 - t.run;
  for (const table of [...tables].sort((a, b) => order(a) - order(b) || a.number - b.number)) {
    const name = `${table.level}/${table.run}`;
    runs.set(name, [...(runs.get(name) ?? []), table]);
  }
  const row = Math.max(6, Math.min(20, 200 / Math.max(1, runs.size)));
  const picture = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${Math.max(1, runs.size) * (row + 4) + 6}`,
    role: "img",
    "aria-label": `${count(tables.length, "table")} in ${count(runs.size, "run")}`,
  });
  const widest = Math.max(
    1,
    ...[...runs.values()].map((own) => own.reduce((sum, table) => sum + table.size_bytes, 0)),
  );
  const fresh = new Set(step.added.map((table) => table.number));
  const x = scaleLinear()
    .domain([0, widest])
    .range([58, WIDTH - 4]);
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
            fill: isFresh ? KINDS[step.kind].colour : null,
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
  const height = 150;
  const series: {
    text: string;
    colour: string;
    dash: string;
    value: (s: HistoryStep) => number;
  }[] = [
    { text: "flushed", colour: "#0072b2", dash: "", value: (s) => s.flushed_bytes },
    { text: "compacted", colour: "#e69f00", dash: "7 3", value: (s) => s.compacted_bytes },
    { text: "space", colour: "#009e73", dash: "2 3", value: (s) => s.live_bytes },
  ];
  const most = max(steps, (s) => Math.max(s.flushed_bytes, s.compacted_bytes, s.live_bytes)) ?? 1;
  const x = scaleLinear()
    .domain([0, Math.max(1, steps.length - 1)])
    .range([58, WIDTH - 90]);
  const y = scaleLinear()
    .domain([0, most])
    .range([height - 22, 8]);
  const picture = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${height}`,
    role: "img",
    "aria-label": "Bytes flushed and compacted so far, and the space of all tables",
  });
  select(picture)
    .append("g")
    .attr("class", "axis")
    .attr("transform", `translate(0 ${height - 22})`)
    .call(
      axisBottom(x)
        .ticks(Math.min(8, steps.length))
        .tickFormat((n) => integer(Number(n) + 1)),
    );
  select(picture)
    .append("g")
    .attr("class", "axis")
    .attr("transform", "translate(58 0)")
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
          fill: "none",
          stroke: one.colour,
          "stroke-width": 2,
          "stroke-dasharray": one.dash,
        }),
      );
    above = Math.max(one.end + 4, above + 13);
    picture.append(svg("text", { x: WIDTH - 84, y: above, fill: one.colour }, one.text));
  }
  picture.append(svg("line", { x1: x(at), x2: x(at), y1: 8, y2: height - 22, class: "now" }));
  return picture;
}
