// The map: memtables, levels, runs, tables and blocks, drawn to scale on a canvas that zooms.

import { extent } from "d3-array";
import { interpolateRgbBasis } from "d3-interpolate";
import { scaleSequential, scaleSequentialLog } from "d3-scale";
import { select } from "d3-selection";
import { type D3ZoomEvent, type ZoomBehavior, zoom, zoomIdentity } from "d3-zoom";
import type { App, Colouring, Scale, State } from "./app";
import { MARKS, themed } from "./colour";
import { button, fill, h } from "./dom";
import { bytes, count, date, integer, percent, significant } from "./format";
import { type Cell, item, type Mark, type Model, markOf } from "./model";

const COLOURINGS: Record<Colouring, { text: string; value: (cell: Cell) => number | null }> = {
  rate: {
    text: "false-positive rate",
    value: (cell) => item(cell.table.cells.rate, cell.at) ?? cell.table.expected_rate,
  },
  keys: {
    text: "entries per block",
    value: (cell) => item(cell.table.cells.entry_count, cell.at) / cell.blockCount,
  },
  size: { text: "bytes per block", value: (cell) => cell.size / cell.blockCount },
  age: { text: "when it was written", value: (cell) => cell.table.written_at_s },
  reads: {
    text: "reads by this page's lookups",
    value: (cell) => item(cell.table.cells.reads, cell.at),
  },
  cached: {
    text: "share in the block cache",
    value: (cell) => item(cell.table.cells.cached, cell.at) / cell.blockCount,
  },
};

const MOST_ZOOM = 4000;
const LABELS_PX = 74;
const NARROW_LABELS_PX = 44;

export class MapView {
  readonly element: HTMLElement;
  #app: App;
  #canvas = h("canvas", {
    tabindex: 0,
    role: "application",
    "aria-roledescription": "zoomable map",
  });
  #legend = h("div", { class: "legend" });
  #memtables = h("p", { class: "memtables" });
  #said = h("p", { class: "visually-hidden", "aria-live": "polite" });
  #hover = h("div", { class: "tip", hidden: true });
  #zoom: ZoomBehavior<HTMLCanvasElement, unknown>;
  #transform = zoomIdentity;
  #width = 0;
  #height = 0;
  #frame = 0;

  constructor(app: App) {
    this.#app = app;
    this.element = h(
      "section",
      { class: "map card", "aria-label": "Map of the store" },
      this.#controls(),
      this.#memtables,
      h("div", { class: "canvas" }, this.#canvas, this.#hover),
      this.#legend,
      this.#said,
    );
    this.#zoom = zoom<HTMLCanvasElement, unknown>()
      .scaleExtent([1, MOST_ZOOM])
      .filter((event: Event) => event.type !== "wheel" || isZoomWheel(event as WheelEvent))
      .on("zoom", (event: D3ZoomEvent<HTMLCanvasElement, unknown>) => {
        this.#transform = event.transform;
        this.#draw();
      });
    select(this.#canvas).call(this.#zoom).on("dblclick.zoom", null);
    this.#canvas.addEventListener("click", (event) => this.#select(this.#cellUnder(event)));
    this.#canvas.addEventListener("pointermove", (event) => this.#tip(event));
    this.#canvas.addEventListener("pointerleave", () => {
      this.#hover.hidden = true;
    });
    this.#canvas.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#resize()).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
    app.watch((state, before) => {
      if (state.model !== before.model || state.pulse !== before.pulse || state === before)
        this.#describe(state);
      if (state.model !== before.model) this.#resize();
      this.#draw();
    });
  }

  /** Draws again, as after a change of colours. */
  redraw(): void {
    this.#draw();
  }

  /** Zooms so that a cell is a good part of the width; the whole store without one. */
  zoomTo(cell: Cell | null): void {
    const target = select(this.#canvas);
    if (cell === null) {
      this.#zoom.transform(target, zoomIdentity);
      return;
    }
    const [left, right] = this.#span(cell);
    const plot = this.#width - this.#labels;
    const k = Math.min(MOST_ZOOM, Math.max(1, 0.2 / Math.max(right - left, 1e-6)));
    const middle = ((left + right) / 2) * plot + this.#labels;
    this.#zoom.transform(target, zoomIdentity.translate(this.#width / 2 - middle * k, 0).scale(k));
  }

  get #labels(): number {
    return this.#width < 520 ? NARROW_LABELS_PX : LABELS_PX;
  }

  get #laneHeight(): number {
    const lanes = this.#app.state.model.lanes.length;
    return lanes > 14 ? 18 : lanes > 8 ? 24 : 34;
  }

  #controls(): HTMLElement {
    const colouring = h("select", { id: "colouring" });
    for (const [name, { text }] of Object.entries(COLOURINGS))
      colouring.append(h("option", { value: name }, text));
    colouring.addEventListener("change", () =>
      this.#app.set({ colouring: colouring.value as Colouring }),
    );
    const scale = h("select", { id: "scale" });
    scale.append(h("option", { value: "keys" }, "keys, so that a lookup is a vertical line"));
    scale.append(h("option", { value: "bytes" }, "bytes"));
    scale.addEventListener("change", () => this.#app.set({ scale: scale.value as Scale }));
    this.#app.watch((state) => {
      colouring.value = state.colouring;
      scale.value = state.scale;
    });
    return h(
      "div",
      { class: "controls" },
      h("h2", {}, "Map"),
      h("label", {}, "Colour ", colouring),
      h("label", {}, "Across ", scale),
      h(
        "span",
        { class: "zooms" },
        button("−", () => this.#zoomBy(1 / 2), { "aria-label": "Zoom out" }),
        button("+", () => this.#zoomBy(2), { "aria-label": "Zoom in" }),
        button("All", () => this.zoomTo(null), { "aria-label": "Show the whole store" }),
      ),
    );
  }

  #zoomBy(factor: number): void {
    this.#zoom.scaleBy(select(this.#canvas), factor);
  }

  #describe(state: State): void {
    const { map } = state.model.page;
    const runs = state.model.lanes.length;
    this.#canvas.setAttribute(
      "aria-label",
      `${count(runs, "run")}, ${count(map.table_count, "table")}, ${count(map.block_count, "block")}. ` +
        "Left and right go to the next block, up and down to the next run, Enter selects, " +
        "plus and minus zoom.",
    );
    const keys = map.memtable_key_counts;
    fill(
      this.#memtables,
      keys.length > 1 ? "Memtables: " : "Memtable: ",
      ...keys.map((n, i) =>
        h("span", { class: "memtable" }, count(n, "key"), i ? " (to be flushed)" : ""),
      ),
      runs === 0 ? " No tables yet: everything is in the log." : "",
    );
  }

  #resize(): void {
    const box = this.#canvas.parentElement;
    if (!box) return;
    this.#width = box.clientWidth;
    const lanes = this.#app.state.model.lanes.length;
    this.#height = Math.max(40, lanes * (this.#laneHeight + 6) + 22);
    const ratio = devicePixelRatio || 1;
    this.#canvas.width = this.#width * ratio;
    this.#canvas.height = this.#height * ratio;
    this.#canvas.style.setProperty("height", `${this.#height}px`);
    this.#zoom
      .extent([
        [this.#labels, 0],
        [this.#width, this.#height],
      ])
      .translateExtent([
        [this.#labels, 0],
        [this.#width, this.#height],
      ]);
    this.#draw();
  }

  #draw(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#paint());
  }

  /** Where a cell lies across the unzoomed plot, 0 to 1. */
  #span(cell: Cell): [number, number] {
    if (this.#app.state.scale === "keys") return [cell.start, cell.end];
    const widest = this.#app.state.model.widestRun;
    return [cell.offset / widest, (cell.offset + cell.size) / widest];
  }

  #x(place: number): number {
    return this.#transform.applyX(this.#labels + place * (this.#width - this.#labels));
  }

  #y(lane: number): number {
    return lane * (this.#laneHeight + 6) + 4;
  }

  #paint(): void {
    const context = this.#canvas.getContext("2d");
    if (!context || this.#width === 0) return;
    const { model, selected, lookup, step } = this.#app.state;
    const ratio = devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.#width, this.#height);
    const colour = this.#colours(model);
    const tall = this.#laneHeight;
    context.save();
    context.beginPath();
    context.rect(this.#labels, 0, this.#width - this.#labels, this.#height);
    context.clip();
    for (const lane of model.lanes)
      for (const cell of lane.cells) {
        const [from, to] = this.#span(cell);
        const left = this.#x(from);
        const right = this.#x(to);
        if (right < this.#labels || left > this.#width) continue;
        const wide = Math.max(1, right - left - (right - left > 4 ? 1 : 0));
        context.fillStyle = colour(cell);
        context.fillRect(left, this.#y(cell.lane), wide, tall);
        if (cell.at === 0) {
          context.fillStyle = themed("--ink");
          context.fillRect(left, this.#y(cell.lane) - 2, 1.5, tall + 4); // a table begins
        }
        if (wide > 90) this.#name(context, cell, left, wide);
      }
    if (lookup) this.#paintLookup(context, step - lookup.memtables.length);
    if (selected) this.#outline(context, selected, themed("--mark"), 3);
    context.restore();
    this.#paintLabels(context);
  }

  #name(context: CanvasRenderingContext2D, cell: Cell, left: number, wide: number): void {
    context.save();
    context.beginPath();
    context.rect(left, 0, wide, this.#height);
    context.clip();
    context.font = "12px ui-monospace, monospace";
    context.textBaseline = "middle";
    const text = `${cell.firstBlock} ${item(cell.table.cells.first_key, cell.at)}`;
    const y = this.#y(cell.lane) + this.#laneHeight / 2;
    const x = Math.max(left, this.#labels) + 5;
    context.lineWidth = 3;
    context.strokeStyle = themed("--ground");
    context.strokeText(text, x, y);
    context.fillStyle = themed("--ink");
    context.fillText(text, x, y);
    context.restore();
  }

  #outline(context: CanvasRenderingContext2D, cell: Cell, colour: string, width: number): void {
    const [from, to] = this.#span(cell);
    const left = this.#x(from);
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.strokeRect(left, this.#y(cell.lane), Math.max(4, this.#x(to) - left), this.#laneHeight);
  }

  /** The first `shown` runs of the lookup: a line at the key, and each block's mark. */
  #paintLookup(context: CanvasRenderingContext2D, shown: number): void {
    const { lookup, model, scale } = this.#app.state;
    if (!lookup) return;
    const last = lookup.runs.slice(0, Math.max(0, shown)).at(-1);
    const at = this.#x(lookup.position);
    if (scale === "keys") {
      const bottom = last ? this.#y(model.laneOf(last)) + this.#laneHeight / 2 : 0;
      context.strokeStyle = themed("--ink");
      context.lineWidth = 1.5;
      context.setLineDash([5, 3]);
      context.beginPath();
      context.moveTo(at, 0);
      context.lineTo(at, bottom);
      context.stroke();
      context.setLineDash([]);
    }
    for (const step of lookup.runs.slice(0, Math.max(0, shown))) {
      const mark = markOf(step);
      const cell =
        step.table !== null && step.spanning_block !== null
          ? model.cellOf(step.table, step.spanning_block)
          : undefined;
      let centre = at;
      if (cell) {
        const [from, to] = this.#span(cell);
        centre = scale === "keys" ? at : (this.#x(from) + this.#x(to)) / 2;
        context.fillStyle = MARKS[mark].colour;
        const left = this.#x(from);
        context.fillRect(
          left,
          this.#y(cell.lane),
          Math.max(3, this.#x(to) - left),
          this.#laneHeight,
        );
      } else if (scale === "bytes") continue;
      this.#sign(context, mark, centre, this.#y(model.laneOf(step)) + this.#laneHeight / 2);
    }
  }

  #sign(context: CanvasRenderingContext2D, mark: Mark, x: number, y: number): void {
    context.beginPath();
    context.arc(x, y, 9, 0, 2 * Math.PI);
    context.fillStyle = MARKS[mark].colour;
    context.fill();
    context.lineWidth = 1.5;
    context.strokeStyle = "#1b1f24";
    context.stroke();
    context.fillStyle = "#1b1f24";
    context.font = "bold 12px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(MARKS[mark].sign, x, y + 0.5);
    context.textAlign = "start";
  }

  #paintLabels(context: CanvasRenderingContext2D): void {
    const { model } = this.#app.state;
    const isNarrow = this.#labels === NARROW_LABELS_PX;
    context.fillStyle = themed("--soft");
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    model.lanes.forEach((lane, at) => {
      const isFirst = at === 0 || model.lanes[at - 1]?.level !== lane.level;
      const name = isNarrow ? `L${lane.level}` : `level ${lane.level}`;
      if (isFirst) context.fillText(name, 0, this.#y(at) + this.#laneHeight / 2);
      else if (this.#laneHeight > 12)
        context.fillText(isNarrow ? "" : "run", 18, this.#y(at) + this.#laneHeight / 2);
    });
    context.textBaseline = "bottom";
    const from = this.#transform.invertX(this.#labels) - this.#labels;
    const to = this.#transform.invertX(this.#width) - this.#labels;
    const plot = this.#width - this.#labels;
    const share = `${significant((100 * (to - from)) / plot, 3)} % of the width`;
    const scale = this.#app.state.scale;
    const text = scale === "keys" ? "keys, in order →" : `bytes of ${bytes(model.widestRun)} →`;
    context.fillText(
      this.#transform.k > 1 ? `${text}  (${share})` : text,
      this.#labels,
      this.#height,
    );
  }

  #colours(model: Model): (cell: Cell) => string {
    const { colouring } = this.#app.state;
    const { value } = COLOURINGS[colouring];
    const ramp = interpolateRgbBasis([themed("--low"), themed("--middle"), themed("--high")]);
    const values = model.lanes.flatMap((lane) => lane.cells.map(value)).filter((v) => v !== null);
    const [low, high] = extent(values);
    this.#paintLegend(low, high);
    const unknown = themed("--line");
    if (low === undefined || high === undefined) return () => unknown;
    if (low === high) return (cell) => (value(cell) === null ? unknown : ramp(0.35));
    const isLog = colouring === "rate" && low > 0;
    const scaled = isLog
      ? scaleSequentialLog(ramp).domain([low, high])
      : scaleSequential(ramp).domain([low, high]);
    return (cell) => {
      const v = value(cell);
      return v === null ? unknown : scaled(v);
    };
  }

  #paintLegend(low: number | undefined, high: number | undefined): void {
    const { colouring } = this.#app.state;
    const text = COLOURINGS[colouring].text;
    if (low === undefined || high === undefined) {
      fill(this.#legend, `${text}: unknown`);
      return;
    }
    const shown = (v: number): string => {
      if (colouring === "rate" || colouring === "cached") return percent(v);
      if (colouring === "age") return date(v);
      return colouring === "size" ? bytes(v) : integer(v);
    };
    if (low === high) fill(this.#legend, `${text}: ${shown(low)} everywhere`);
    else
      fill(
        this.#legend,
        `${text}: `,
        shown(low),
        h("span", { class: "ramp", role: "img", "aria-label": "to" }),
        shown(high),
      );
  }

  // Pointing and selecting

  #laneAt(y: number): number {
    return Math.floor((y - 4) / (this.#laneHeight + 6));
  }

  #cellUnder(event: PointerEvent | MouseEvent): Cell | null {
    const lane = this.#app.state.model.lanes[this.#laneAt(event.offsetY)];
    if (!lane || event.offsetX < this.#labels) return null;
    let nearest: Cell | null = null;
    let distance = 4; // pixels: narrow cells can be hit too
    for (const cell of lane.cells) {
      const [from, to] = this.#span(cell);
      const away = Math.max(this.#x(from) - event.offsetX, event.offsetX - this.#x(to), 0);
      if (away < distance) [nearest, distance] = [cell, away];
      if (away === 0) break;
    }
    return nearest;
  }

  #select(cell: Cell | null): void {
    if (!cell) return;
    this.#app.set({ selected: cell });
    this.#said.textContent = named(cell);
  }

  #tip(event: PointerEvent): void {
    const cell = this.#cellUnder(event);
    this.#hover.hidden = cell === null;
    if (!cell) return;
    fill(this.#hover, named(cell));
    const left = Math.min(event.offsetX + 12, this.#width - 220);
    this.#hover.style.setProperty("left", `${Math.max(0, left)}px`);
    this.#hover.style.setProperty("top", `${event.offsetY + 16}px`);
  }

  #key(event: KeyboardEvent): void {
    const { model, selected } = this.#app.state;
    if (event.key === "+" || event.key === "=") this.#zoomBy(2);
    else if (event.key === "-") this.#zoomBy(1 / 2);
    else if (event.key === "Enter" && selected) this.zoomTo(selected);
    else if (event.key === "Escape") this.zoomTo(null);
    else if (event.key.startsWith("Arrow")) {
      const next = selected ? neighbour(model, selected, event.key) : model.lanes[0]?.cells[0];
      if (next) this.#select(next);
    } else return;
    event.preventDefault();
  }
}

function isZoomWheel(event: WheelEvent): boolean {
  return event.ctrlKey || event.metaKey || event.shiftKey;
}

function neighbour(model: Model, cell: Cell, key: string): Cell | undefined {
  const cells = item(model.lanes, cell.lane).cells;
  const at = cells.indexOf(cell);
  if (key === "ArrowRight") return cells[at + 1];
  if (key === "ArrowLeft") return cells[at - 1];
  const lane = model.lanes[cell.lane + (key === "ArrowDown" ? 1 : -1)];
  return lane?.cells.find((other) => other.end >= cell.start) ?? lane?.cells.at(-1);
}

/** A cell in words. */
export function named(cell: Cell): string {
  const table = cell.table;
  const many = table.table_count > 1 ? `tables from ${table.number}` : `table ${table.number}`;
  const last = cell.firstBlock + cell.blockCount - 1;
  const blocks =
    cell.blockCount > 1 ? `blocks ${cell.firstBlock} to ${last}` : `block ${cell.firstBlock}`;
  return `${many}, ${blocks}, from ${item(table.cells.first_key, cell.at)}`;
}
