// The map: memtables, levels, runs, tables and blocks, drawn to scale on a canvas that zooms.

import { select } from "d3-selection";
import { type D3ZoomEvent, type ZoomBehavior, zoom, zoomIdentity } from "d3-zoom";
import type { App, Colouring, State } from "./app";
import { MARKS } from "./colour";
import { button, fill, h } from "./dom";
import { count } from "./format";
import { item } from "./items";
import { signed } from "./marks";
import { type Cell, type Model, markOf, moved } from "./model";
import { heightFor, laneAt, paint, type Sheet } from "./paint";
import { nearestTo, type Row, rowsOf } from "./places";
import { COLOURINGS, isEven, type Shading, shadingOf } from "./shades";

/** A lecture fills such a window, and its map the room that is left; as in the style. */
const FILLED = matchMedia("(min-width: 901px) and (min-height: 540px)");

const MOST_ZOOM = 4000;
const LABELS_EM = 6.2;
const NARROW_LABELS_EM = 3.6;
const NARROW_PX = 520;
const EM_PX = 12;
const INSIDE: Record<string, string> = { absent: "not there", unknown: "unknown here" };
const HIT_PX = 4; // narrow cells can be hit too

export class MapView {
  readonly element: HTMLElement;
  #app: App;
  #canvas = h("canvas", {
    tabindex: 0,
    role: "application",
    "aria-roledescription": "zoomable map",
  });
  #box = h("div", { class: "canvas" });
  #legend = h("div", { class: "legend" });
  #signs = h("ul", { class: "signs", "aria-label": "Signs", hidden: true });
  #memtables = h("p", { class: "memtables" });
  #said = h("p", { class: "visually-hidden", "aria-live": "polite" });
  #hover = h("div", { class: "tip", hidden: true });
  #zoom: ZoomBehavior<HTMLCanvasElement, unknown>;
  #transform = zoomIdentity;
  #rows: Row[] = [];
  #shading: Shading | null = null; // null until it is needed
  #width = 0;
  #height = 0;
  #laneHeight = 0;
  #gap = 0;
  #em = EM_PX;
  #frame = 0;

  constructor(app: App) {
    this.#app = app;
    this.#box.append(this.#canvas, this.#hover);
    this.element = h(
      "section",
      { class: "map card", "aria-label": "Map of the store" },
      h("h2", {}, "The store"),
      this.#memtables,
      this.#box,
      this.#signs,
      this.#controls(),
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
    new ResizeObserver(() => this.#resize()).observe(this.#box);
    addEventListener("beforeprint", () => this.#paint());
    app.watch((state, before) => this.#follow(state, before));
  }

  #follow(state: State, before: State): void {
    const isFirst = state === before;
    const isFresh = state.model !== before.model;
    const isCounted = state.pulse !== before.pulse;
    if (isFirst || isFresh) this.#rows = rowsOf(state.model);
    if (
      isFresh ||
      state.colouring !== before.colouring ||
      state.colours !== before.colours ||
      state.rate !== before.rate ||
      (isCounted && state.colouring === "wasted")
    )
      this.#shading = null;
    if (isFresh) this.#keepPlace(before.model, state);
    const isShown = state.lookup !== before.lookup || state.step !== before.step;
    if (isFirst || isFresh || isCounted || isShown) this.#describe(state);
    if (isFresh || state.isLecture !== before.isLecture) this.#resize();
    else this.#draw();
  }

  /** Zooms so that a cell is a good part of the width; the whole store without one. */
  zoomTo(cell: Cell | null): void {
    if (cell === null) this.#zoom.transform(select(this.#canvas), zoomIdentity);
    else {
      const [from, to] = this.#span(cell);
      const middle = (from + to) / 2;
      const half = Math.max((to - from) / 0.4, 0.5 / MOST_ZOOM);
      this.#zoomTo(middle - half, middle + half);
    }
  }

  /** Shows the places `from` to `to`, as far as zooming can. */
  #zoomTo(from: number, to: number): void {
    const k = Math.min(MOST_ZOOM, Math.max(1, 1 / Math.max(to - from, 1e-9)));
    const first = Math.max(0, Math.min(1 - 1 / k, (from + to - 1 / k) / 2));
    const labels = this.#labels;
    const left = labels + first * (this.#width - labels);
    this.#zoom.transform(
      select(this.#canvas),
      zoomIdentity.translate(labels - left * k, 0).scale(k),
    );
  }

  /** After a fresh map: goes on showing the keys that were shown. */
  #keepPlace(before: Model, state: State): void {
    if (this.#transform.k <= 1 || this.#width === 0) return;
    const move = moved(before, state.model);
    this.#zoomTo(move(this.#placeAt(this.#labels)), move(this.#placeAt(this.#width)));
  }

  get #labels(): number {
    return (this.#width < NARROW_PX ? NARROW_LABELS_EM : LABELS_EM) * this.#em;
  }

  #controls(): HTMLElement {
    const colouring = h("select", { id: "colouring" });
    for (const [name, { text }] of Object.entries(COLOURINGS))
      colouring.append(h("option", { value: name }, text));
    colouring.addEventListener("change", () =>
      this.#app.set({ colouring: colouring.value as Colouring }),
    );
    this.#app.watch((state) => {
      colouring.value = state.colouring;
    });
    return h(
      "div",
      { class: "controls" },
      h("label", {}, "Colour ", colouring),
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
    this.element.classList.toggle("without-tables", map.table_count === 0);
    const runs = state.model.lanes.length;
    this.#canvas.setAttribute(
      "aria-label",
      `${count(runs, "run")}, ${count(map.table_count, "table")}, ${count(map.block_count, "block")}. ` +
        "Left and right go to the next block and select it, up and down to the next run, Home and End " +
        "to the ends of a run. Enter zooms to the block, Escape shows all, plus and minus zoom.",
    );
    const keys = map.memtable_key_counts;
    const { lookup, step } = state;
    fill(
      this.#memtables,
      keys.length > 1 ? "Memtables: " : "Memtable: ",
      ...keys.map((n, i) => {
        const asked = i < step ? lookup?.memtables[i] : undefined;
        return h(
          "span",
          { class: asked ? "memtable probed" : "memtable" },
          count(n, "key"),
          i ? h("span", { class: "detail" }, " (to be flushed)") : "",
          asked ? `: ${INSIDE[asked.outcome] ?? `✓ ${asked.outcome}`}` : "",
        );
      }),
      runs > 0
        ? ""
        : keys.some((n) => n > 0)
          ? " No table yet: everything is in the log and in memory."
          : " No table yet.",
    );
    this.#explainSigns(state);
  }

  /** The signs of the lookup on show and what they mean. */
  #explainSigns({ lookup }: State): void {
    const marks = new Set(lookup?.runs.map(markOf));
    this.#signs.hidden = marks.size === 0;
    fill(this.#signs, ...[...marks].map((mark) => h("li", {}, signed(mark), MARKS[mark].text)));
  }

  #resize(): void {
    if (this.#box.clientWidth === 0) return; // hidden; when it shows again, it is observed
    this.#width = this.#box.clientWidth;
    const { isLecture, model } = this.#app.state;
    const lanes = Math.max(1, model.lanes.length);
    if (isLecture && FILLED.matches) {
      this.#em = Math.max(13, Math.round(this.#width / 48));
      this.#gap = lanes > 8 ? 3 : 8;
      const room = this.#box.clientHeight - heightFor(0, 0, 0, this.#em);
      this.#laneHeight = Math.max(
        6,
        Math.min(this.#box.clientHeight / 4, room / lanes - this.#gap),
      );
    } else {
      this.#em = EM_PX;
      this.#gap = 6;
      this.#laneHeight = Math.max(18, Math.min(86, 440 / lanes - this.#gap));
    }
    this.#height = Math.max(
      40,
      heightFor(model.lanes.length, this.#laneHeight, this.#gap, this.#em),
    );
    const ratio = devicePixelRatio || 1;
    const [wide, tall] = [Math.round(this.#width * ratio), Math.round(this.#height * ratio)];
    if (this.#canvas.width !== wide) this.#canvas.width = wide;
    if (this.#canvas.height !== tall) this.#canvas.height = tall;
    this.#canvas.style.setProperty("--tall", `${this.#height}px`);
    const whole: [[number, number], [number, number]] = [
      [this.#labels, 0],
      [Math.max(this.#labels + 1, this.#width), this.#height],
    ];
    this.#zoom.extent(whole).translateExtent(whole);
    this.#paint(); // at once: a canvas of a new size is empty
  }

  #draw(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#paint());
  }

  /** Where a cell lies across the unzoomed plot, 0 to 1. */
  #span(cell: Cell): [number, number] {
    const row = item(this.#rows, cell.lane);
    return [item(row.from, cell.index), item(row.to, cell.index)];
  }

  /** The place under a pixel. */
  #placeAt(x: number): number {
    return (this.#transform.invertX(x) - this.#labels) / (this.#width - this.#labels);
  }

  #sheet(context: CanvasRenderingContext2D): Sheet {
    const { k, x } = this.#transform;
    return {
      context,
      ratio: devicePixelRatio || 1,
      width: this.#width,
      height: this.#height,
      labels: this.#labels,
      laneHeight: this.#laneHeight,
      gap: this.#gap,
      em: this.#em,
      shift: x + k * this.#labels,
      stretch: k * (this.#width - this.#labels),
    };
  }

  #paint(): void {
    const context = this.#canvas.getContext("2d");
    if (!context || this.#width <= this.#labels) return;
    const { model, selected, lookup, step, colouring, isLecture, rate } = this.#app.state;
    if (this.#shading === null) {
      this.#shading = shadingOf(
        model,
        colouring,
        rate === null ? null : item(model.page.rates, rate),
      );
      this.#paintLegend(this.#shading, colouring);
    }
    paint(this.#sheet(context), {
      model,
      rows: this.#rows,
      shading: this.#shading,
      selected: isLecture ? null : selected,
      lookup,
      runs: lookup ? step - lookup.memtables.length : 0,
      isFaint: isLecture && lookup !== null,
    });
  }

  #paintLegend({ low, high }: Shading, colouring: Colouring): void {
    const { text, shown } = COLOURINGS[colouring];
    if (colouring === "level")
      fill(this.#legend); // the rows name it
    else if (low === null || high === null) fill(this.#legend, `${text}: unknown`);
    else if (isEven({ low, high }, colouring))
      fill(this.#legend, `${text}: ${shown(low)} everywhere`);
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

  #cellUnder(event: PointerEvent | MouseEvent): Cell | null {
    const context = this.#canvas.getContext("2d");
    if (!context || event.offsetX < this.#labels) return null;
    const lane = laneAt(this.#sheet(context), event.offsetY);
    const [row, cells] = [this.#rows[lane], this.#app.state.model.lanes[lane]?.cells];
    if (!row || !cells) return null;
    const most = this.#placeAt(event.offsetX + HIT_PX) - this.#placeAt(event.offsetX);
    return cells[nearestTo(row, this.#placeAt(event.offsetX), most)] ?? null;
  }

  #select(cell: Cell | null): void {
    if (!cell) return;
    this.#app.set({ selected: cell });
    this.#said.textContent = named(cell);
  }

  /** Moves the map, if it is zoomed, so that a cell is in sight. */
  #reveal(cell: Cell): void {
    const [from, to] = this.#span(cell);
    const [left, right] = [this.#placeAt(this.#labels), this.#placeAt(this.#width)];
    if (to > left && from < right) return;
    const half = (right - left) / 2;
    this.#zoomTo((from + to) / 2 - half, (from + to) / 2 + half);
  }

  #tip(event: PointerEvent): void {
    const cell = this.#cellUnder(event);
    this.#hover.hidden = cell === null;
    if (!cell) return;
    fill(this.#hover, named(cell));
    const { offsetWidth, offsetHeight } = this.#hover;
    const left = Math.max(0, Math.min(event.offsetX + 12, this.#width - offsetWidth));
    const isLow = event.clientY + 16 + offsetHeight > innerHeight;
    const top = isLow ? event.offsetY - 8 - offsetHeight : event.offsetY + 16;
    this.#hover.style.setProperty("left", `${left}px`);
    this.#hover.style.setProperty("top", `${top}px`);
  }

  #key(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { model, selected, isLecture } = this.#app.state;
    if (isLecture) return; // its keys go through the scenes
    if (event.key === "+" || event.key === "=") this.#zoomBy(2);
    else if (event.key === "-") this.#zoomBy(1 / 2);
    else if (event.key === "Enter" && selected) this.zoomTo(selected);
    else if (event.key === "Escape") this.zoomTo(null);
    else if (/^(Arrow|Home$|End$)/.test(event.key)) {
      const next = selected ? neighbour(model, selected, event.key) : model.lanes[0]?.cells[0];
      if (next) {
        this.#select(next);
        this.#reveal(next);
      }
    } else return;
    event.preventDefault();
  }
}

function isZoomWheel(event: WheelEvent): boolean {
  return event.ctrlKey || event.metaKey || event.shiftKey;
}

function neighbour(model: Model, cell: Cell, key: string): Cell | undefined {
  const cells = item(model.lanes, cell.lane).cells;
  if (key === "Home") return cells[0];
  if (key === "End") return cells.at(-1);
  if (key === "ArrowRight") return cells[cell.index + 1];
  if (key === "ArrowLeft") return cells[cell.index - 1];
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
  return `${many}, ${blocks}, from ${item(table.cells.from_key, cell.at)}`;
}
