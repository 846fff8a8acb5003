// What other filters would do: rebuilt over sampled blocks, asked real absent keys.

import { max, min } from "d3-array";
import { axisBottom, axisLeft } from "d3-axis";
import { scaleLinear, scaleLog } from "d3-scale";
import { select } from "d3-selection";
import { line } from "d3-shape";
import type { App, State } from "./app";
import { type Tone, toned } from "./colour";
import type { Rebuilt, WhatIf } from "./contract";
import { drawingWidth, facts, fill, h, svg } from "./dom";
import { bytes, count, integer, percent, saved, significant } from "./format";

const KINDS: { policy: string; text: string; tone: Tone; dash: string; shape: string }[] = [
  { policy: "none", text: "none", tone: "grey", dash: "", shape: "■" },
  { policy: "bloom", text: "Bloom", tone: "blue", dash: "", shape: "●" },
  { policy: "ribbon", text: "ribbon", tone: "green", dash: "7 3", shape: "▲" },
  { policy: "cuckoo", text: "cuckoo", tone: "red", dash: "2 3", shape: "◆" },
  { policy: "binary-fuse", text: "binary fuse", tone: "pink", dash: "9 3 2 3", shape: "▼" },
];
const SIZE = { height: 340, left: 84, right: 14, top: 16, bottom: 46 };

export class WhatIfView {
  readonly element = h("section", { class: "what-if card", "aria-label": "What if" });
  #app: App;
  #policy = "bloom";
  #rate = 0.01;
  #shown = ""; // the data on show, as JSON

  constructor(app: App) {
    this.#app = app;
    app.watch((state, before) => {
      if (state.model === before.model && state !== before) return;
      const data = JSON.stringify(state.model.page.what_if);
      if (data === this.#shown) return; // a fresh map of the same blocks
      this.#shown = data;
      const focused = this.element.contains(document.activeElement) && document.activeElement?.id;
      this.#build(state);
      if (focused) document.getElementById(focused)?.focus();
    });
  }

  /** Shows one kind of filter at the rate nearest to `rate`. */
  choose(policy: string, rate: number): void {
    this.#policy = policy;
    this.#rate = rate;
    this.#build(this.#app.state);
  }

  #build(state: State): void {
    const data = state.model.page.what_if;
    const heading = h("h2", {}, "What if the filters were others?");
    if (!data) {
      fill(
        this.element,
        heading,
        h("p", { class: "hint" }, "There is no block to try filters on."),
      );
      return;
    }
    const rates = [...new Set(data.rebuilt.map((one) => one.requested_rate))]
      .filter((rate) => rate < 1)
      .sort((a, b) => b - a);
    const kinds = h("div", { class: "kinds", role: "radiogroup", "aria-label": "Kind of filter" });
    const slider = h("input", {
      type: "range",
      id: "rate",
      min: 0,
      max: rates.length - 1,
      step: 1,
      value: nearest(rates, this.#rate),
    });
    const readout = h("div", { "aria-live": "polite" });
    const chart = h("div", { class: "chart" });
    const show = (): void => {
      this.#rate = rates[Number(slider.value)] ?? 0.01;
      slider.disabled = this.#policy === "none";
      slider.setAttribute("aria-valuetext", percent(this.#rate));
      const chosen = this.#chosen(data);
      fill(readout, answer(data, chosen));
      fill(chart, drawn(data, chosen));
    };
    for (const { policy, text } of KINDS) {
      const radio = h("input", {
        type: "radio",
        name: "policy",
        id: `policy-${policy}`,
        value: policy,
      });
      radio.checked = policy === this.#policy;
      radio.addEventListener("change", () => {
        this.#policy = policy;
        show();
      });
      kinds.append(h("label", {}, radio, text));
    }
    slider.addEventListener("input", show);
    fill(
      this.element,
      heading,
      h(
        "p",
        { class: "hint" },
        `${count(data.block_count, "block")} of this store with ${count(data.key_count, "key")}: their ` +
          `filters are built anew in memory, and asked ${count(data.absent_count, "absent key")} that ` +
          "lie in these blocks' key ranges.",
      ),
      h(
        "div",
        { class: "controls" },
        kinds,
        h("label", { class: "rate" }, "False-positive rate p asked for ", slider),
      ),
      h("div", { class: "halves" }, readout, chart),
    );
    show();
  }

  #chosen(data: WhatIf): Rebuilt | undefined {
    return data.rebuilt.find(
      (one) =>
        one.policy === this.#policy && (one.policy === "none" || one.requested_rate === this.#rate),
    );
  }
}

function nearest(rates: number[], rate: number): number {
  const distance = (r: number): number => Math.abs(Math.log(r / rate));
  return rates.reduce((best, r, at) => (distance(r) < distance(rates[best] ?? r) ? at : best), 0);
}

function answer(data: WhatIf, one: Rebuilt | undefined): HTMLElement {
  if (!one) return h("p", {}, "Not measured.");
  const measured = one.false_positives / data.absent_count;
  const bits = one.bit_count / data.key_count;
  const others = data.block_bytes - data.filter_bits / 8;
  return h(
    "div",
    {},
    h(
      "p",
      { class: "large" },
      `${integer(one.false_positives)} of ${integer(data.absent_count)} reads left: `,
      h("b", {}, `${saved(1 - measured)} saved`),
    ),
    facts([
      ["asked for", one.policy === "none" ? "no filters" : `p = ${percent(one.requested_rate)}`],
      ["exact rate", percent(one.exact_rate)],
      [
        "measured",
        `${percent(measured)} (95 % interval ${percent(one.low)} to ${percent(one.high)})`,
      ],
      ["bits per key", significant(bits, 3)],
      ["filters of these blocks", bytes(one.bit_count / 8)],
      ["blocks without filters", bytes(others)],
      ["filters, of both", percent(one.bit_count / 8 / (others + one.bit_count / 8))],
      ["reads left of 1,000", significant(1000 * measured, 3)],
    ]),
  );
}

/** The curve of saved reads against bits per key. */
function drawn(data: WhatIf, chosen: Rebuilt | undefined): SVGElement {
  const { height, left, right, top, bottom } = SIZE;
  const width = drawingWidth();
  const keys = Math.max(1, data.key_count);
  const perKey = (one: Rebuilt): number => one.bit_count / keys;
  const least = Math.min(min(data.rebuilt, (one) => one.exact_rate) ?? 1e-4, 1e-3) / 2;
  const x = scaleLinear()
    .domain([0, Math.max(10, max(data.rebuilt, perKey) ?? 10) * 1.05])
    .range([left, width - right]);
  const y = scaleLog()
    .domain([1, least])
    .range([height - bottom, top]);
  const place = (rate: number): number => y(Math.max(least, Math.min(1, rate)));
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "Share of reads saved against bits per key, for each kind of filter",
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
    svg("text", { x: 4, y: 12 }, "reads saved"),
  );
  for (const kind of KINDS) {
    const own = data.rebuilt
      .filter((one) => one.policy === kind.policy)
      .sort((a, b) => perKey(a) - perKey(b) || b.exact_rate - a.exact_rate);
    const path = line<Rebuilt>(
      (one) => x(perKey(one)),
      (one) => place(one.exact_rate),
    )(own);
    if (own.length > 1 && path)
      picture.append(
        svg("path", {
          d: path,
          class: toned(kind.tone, "curve"),
          "stroke-dasharray": kind.dash,
        }),
      );
    for (const one of own) {
      const at = x(perKey(one));
      const rate = one.false_positives / data.absent_count;
      const isChosen = one === chosen;
      picture.append(
        svg("line", {
          x1: at,
          x2: at,
          y1: place(one.low),
          y2: place(one.high),
          class: toned(kind.tone, isChosen ? "range chosen" : "range"),
        }),
        svg(
          "text",
          {
            x: at,
            y: place(rate) + 4,
            "text-anchor": "middle",
            "font-size": isChosen ? 20 : 11,
            class: toned(kind.tone, "ink"),
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
      svg("text", { x: at + 15, y: up - 8, class: "here-text" }, "this store"),
    );
  }
  KINDS.forEach((kind, at) => {
    picture.append(
      svg(
        "text",
        {
          x: width - right - 4,
          y: height - bottom - 14 - 17 * (KINDS.length - 1 - at),
          "text-anchor": "end",
          class: toned(kind.tone, "ink"),
        },
        `${kind.text} ${kind.shape}`,
      ),
    );
  });
  return picture;
}
