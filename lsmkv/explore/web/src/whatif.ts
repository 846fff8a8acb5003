// What p buys: the same lookups with filters built anew, and what each kind of filter costs.

import { max, min } from "d3-array";
import { axisBottom, axisLeft } from "d3-axis";
import { scaleLinear, scaleLog } from "d3-scale";
import { select } from "d3-selection";
import { line } from "d3-shape";
import type { App, State } from "./app";
import type { Rebuilt, WhatIf } from "./contract";
import { drawingWidth, fill, h, svg } from "./dom";
import { count, integer, percent, saved, significant } from "./format";
import { note } from "./links";
import type { Model } from "./model";
import { ScoreView, scored } from "./score";

// Kinds of filter differ in shape and dashes; colours are kept for what they mean.
const KINDS: Record<string, { text: string; dash: string; shape: string }> = {
  none: { text: "none", dash: "", shape: "■" },
  bloom: { text: "Bloom", dash: "", shape: "●" },
  ribbon: { text: "ribbon", dash: "7 3", shape: "▲" },
  grafite: { text: "Grafite", dash: "4 2", shape: "★" },
};
const OTHER = { dash: "1 2", shape: "◆" }; // a policy that a program registered
const SIZE = { height: 340, left: 84, right: 14, top: 16, bottom: 46 };

function lookOf(policy: string): { text: string; dash: string; shape: string } {
  return KINDS[policy] ?? { text: policy, ...OTHER };
}

/** The kinds of filter that were rebuilt. */
function policiesIn(data: WhatIf): string[] {
  return [...new Set(data.rebuilt.map((one) => one.policy))];
}

export class WhatIfView {
  readonly element = h("section", { class: "what-if card", "aria-label": "What p buys" });
  #app: App;
  #policy = "bloom";
  #slider = h("input", { type: "range", id: "rate", min: 0, step: 1 });
  #said = h("output", { for: "rate" });
  #readout = h("div", { "aria-live": "polite" });
  #chart = h("div", { class: "chart" });
  #kinds = h("div", { class: "kinds", role: "radiogroup", "aria-label": "Kind of filter" });
  #shown = ""; // the data on show, as JSON

  constructor(app: App) {
    this.#app = app;
    this.#slider.addEventListener("input", () => {
      const at = Number(this.#slider.value);
      this.choose(at > 0 ? at - 1 : null);
    });
    const score = new ScoreView(app);
    fill(
      this.element,
      h("h2", {}, "What p buys"),
      h(
        "p",
        { class: "hint" },
        "p is how often a filter says maybe to a key that its block lacks. Move it: Bloom filters are " +
          "built anew of the same blocks, and the same keys are asked again.",
      ),
      h("label", { class: "rate" }, "Filters ", this.#slider, this.#said),
      h(
        "div",
        { class: "halves" },
        h("div", {}, score.element, this.#readout),
        h("div", {}, this.#kinds, this.#chart),
      ),
    );
    app.watch((state, before) => {
      const isNew = state.model !== before.model || state === before;
      if (isNew) this.#take(state);
      if (isNew || state.rate !== before.rate) this.#show(state);
    });
  }

  /** Chooses one of the page's rates for all views; the store's own filters without one. */
  choose(rate: number | null): void {
    const { rates } = this.#app.state.model.page;
    this.#app.set({ rate, colouring: rate === null ? "level" : "rate" });
    note({ p: rate === null ? null : String(rates[rate]) });
  }

  /** The same by the rate nearest to `p`. */
  chooseNearest(p: number): void {
    if (!(p > 0)) return;
    const away = (rate: number): number => Math.abs(Math.log(rate / p));
    const { rates } = this.#app.state.model.page;
    const best = [...rates].sort((a, b) => away(a) - away(b))[0];
    if (best !== undefined) this.choose(rates.indexOf(best));
  }

  #take(state: State): void {
    const { what_if, rates } = state.model.page;
    this.element.hidden = !what_if && scored(state).totals.without === 0; // nothing to buy
    this.#slider.max = String(rates.length);
    const data = JSON.stringify(what_if);
    if (data === this.#shown) return; // a fresh map of the same blocks
    this.#shown = data;
    fill(
      this.#kinds,
      ...(what_if ? policiesIn(what_if) : []).map((policy) => {
        const radio = h("input", { type: "radio", name: "policy", value: policy });
        radio.checked = policy === this.#policy;
        radio.addEventListener("change", () => {
          this.#policy = policy;
          this.#show(this.#app.state);
        });
        const { text, shape } = lookOf(policy);
        return h("label", {}, radio, `${shape} ${text}`);
      }),
    );
  }

  #show(state: State): void {
    const { rate, model } = state;
    const { rates, what_if: data } = model.page;
    const p = rate === null ? null : (rates[rate] ?? null);
    this.#slider.value = String(rate === null ? 0 : rate + 1);
    const bloom = data?.rebuilt.find((one) => one.policy === "bloom" && one.requested_rate === p);
    const bits =
      data && bloom ? `, ${significant(bloom.bit_count / data.key_count, 3)} bits per key` : "";
    const own = data?.present;
    const ownRate = own
      ? `: ${lookOf(own.policy).text}, p = ${percent(own.requested_rate)} asked, ${percent(own.exact_rate)} exact`
      : "";
    const said =
      p === null ? `as they are in this store${ownRate}` : `Bloom, p = ${percent(p)}${bits}`;
    this.#said.textContent = said;
    this.#slider.setAttribute("aria-valuetext", said);
    if (!data) {
      fill(
        this.#chart,
        h(
          "p",
          { class: "hint" },
          "No block here has room for absent keys to try other filters on.",
        ),
      );
      fill(this.#readout);
      return;
    }
    const chosen =
      p === null
        ? (data.present ?? undefined)
        : data.rebuilt.find(
            (one) =>
              one.policy === this.#policy && (one.policy === "none" || one.requested_rate === p),
          );
    fill(this.#chart, drawn(data, chosen, this.#policy));
    fill(this.#readout, answer(data, chosen, model));
  }
}

/** What the chart's point at hand stands for. */
function answer(data: WhatIf, one: Rebuilt | undefined, model: Model): HTMLElement {
  const { hasPrefixes, page } = model;
  const indexBits = (8 * page.map.index_bytes) / Math.max(1, page.map.entry_count);
  const keys = count(
    data.absent_count,
    hasPrefixes ? "key of an absent prefix" : "absent key",
    hasPrefixes ? "keys of absent prefixes" : "absent keys",
  );
  const hint = h(
    "p",
    { class: "hint" },
    `The chart: filters of ${count(data.block_count, "block")} of this store, with ` +
      `${count(data.key_count, "key")}, built anew and asked ${keys} in their ranges. ` +
      `The index takes ${significant(indexBits, 3)} bits per key, whatever the filters.`,
  );
  if (!one) return hint;
  const measured = one.false_positives / data.absent_count;
  const kind =
    one.policy === "none"
      ? "Without filters"
      : `${lookOf(one.policy).text}, p = ${percent(one.requested_rate)}`;
  return h(
    "div",
    {},
    hint,
    h(
      "p",
      { class: "measured" },
      h(
        "b",
        {},
        `${kind}: ${integer(one.false_positives)} of ${integer(data.absent_count)} reads left`,
      ),
      `; ${saved(1 - measured)} avoided (left: ${percent(measured)}, 95 % interval ${percent(one.low)} to ` +
        `${percent(one.high)}; exact rate ${percent(one.exact_rate)}), for ` +
        `${significant(one.bit_count / data.key_count, 3)} bits per key, ` +
        `${percent(one.bit_count / 8 / (data.block_bytes - data.filter_bits / 8 + one.bit_count / 8))} of blocks and filters.`,
    ),
  );
}

/** The share of avoided reads against bits per key. */
function drawn(data: WhatIf, chosen: Rebuilt | undefined, policy: string): SVGElement {
  const { height, left, right, top, bottom } = SIZE;
  const width = drawingWidth();
  const keys = Math.max(1, data.key_count);
  const perKey = (one: Rebuilt): number => one.bit_count / keys;
  const of = (name: string): Rebuilt[] => data.rebuilt.filter((one) => one.policy === name);
  const least = Math.min(min(data.rebuilt, (one) => one.exact_rate) ?? 1e-4, 1e-3) / 2;
  // Kinds made for whole tables take many times the bits in small blocks: those lie outside.
  const widest = 2 * Math.max(10, max(of("bloom"), perKey) ?? 10);
  const x = scaleLinear()
    .domain([0, widest])
    .range([left, width - right]);
  const y = scaleLog()
    .domain([1, least])
    .range([height - bottom, top]);
  const place = (rate: number): number => y(Math.max(least, Math.min(1, rate)));
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "Share of reads avoided against bits per key, for each kind of filter",
  });
  const ticks = [1, 0.1, 0.01, 0.001, 0.0001, 0.00001].filter((tick) => tick >= least);
  select(picture)
    .append("g")
    .attr("class", "axis")
    .attr("transform", `translate(0 ${height - bottom})`)
    .call(axisBottom(x).ticks(Math.floor(width / 70)));
  select(picture)
    .append("g")
    .attr("class", "axis")
    .attr("transform", `translate(${left} 0)`)
    .call(
      axisLeft(y)
        .tickValues(ticks)
        .tickFormat((tick) => `${Number((100 - 100 * Number(tick)).toFixed(6))} %`),
    );
  picture.append(
    svg("text", { x: (left + width) / 2, y: height - 8, "text-anchor": "middle" }, "bits per key"),
    svg("text", { x: 4, y: 12 }, "reads avoided"),
  );
  for (const name of policiesIn(data)) {
    const kind = lookOf(name);
    const tone = name === policy ? "chosen" : "other";
    const own = of(name)
      .filter((one) => perKey(one) <= widest)
      .sort((a, b) => perKey(a) - perKey(b) || b.exact_rate - a.exact_rate);
    const path = line<Rebuilt>(
      (one) => x(perKey(one)),
      (one) => place(one.exact_rate),
    )(own);
    if (own.length > 1 && path)
      picture.append(
        svg("path", { d: path, class: `curve ${tone}`, "stroke-dasharray": kind.dash }),
      );
    for (const one of own) {
      const at = x(perKey(one));
      const rate = one.false_positives / data.absent_count;
      const isChosen = one === chosen;
      const ends = { x1: at, x2: at, y1: place(one.low), y2: place(one.high) };
      if (name === policy)
        picture.append(svg("line", { ...ends, class: isChosen ? "range chosen" : "range" }));
      picture.append(
        svg(
          "text",
          {
            x: at,
            y: place(rate) + 4,
            "text-anchor": "middle",
            "font-size": isChosen ? 20 : 11,
            class: isChosen ? "point now" : `point ${tone}`,
          },
          kind.shape,
          svg("title", {}, `${kind.text}, p = ${percent(one.requested_rate)}`),
        ),
      );
    }
  }
  if (data.present) {
    const at = x(perKey(data.present));
    const up = place(data.present.false_positives / data.absent_count);
    picture.append(
      svg("circle", { cx: at, cy: up, r: 11, fill: "none", class: "here" }),
      svg("text", { x: at + 15, y: up + 16, class: "here-text" }, "this store"),
    );
  }
  return picture;
}
