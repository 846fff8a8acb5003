// A toy filter: add words and watch bits, with several numbers of probes side by side.

import { axisBottom, axisLeft } from "d3-axis";
import { scaleLinear } from "d3-scale";
import { select } from "d3-selection";
import { line } from "d3-shape";
import { bitsOfKey } from "./bloom";
import { cells, valuesOf } from "./cells";
import { button, fill, h, svg } from "./dom";
import { count, significant } from "./format";
import { ShaView } from "./sha";

const BITS = 64;
export const PROBES = [1, 2, 4, 8];
export const FIRST_WORDS = ["fox", "hare", "owl", "bee", "ant", "dog"];

const THOUSAND = Array.from({ length: 1000 }, (_, at) => `other word ${at}`);

/** The bits of a word, by the hash of lsmkv's filters. */
export function toyBits(word: string, probes: number): number[] {
  return bitsOfKey(new TextEncoder().encode(word), BITS, probes);
}

/** Which bits the words set. */
export function toyFilter(words: string[], probes: number): Set<number> {
  return new Set(words.flatMap((word) => toyBits(word, probes)));
}

/** How many of a thousand other words get a maybe. */
function passing(words: string[], probes: number): number {
  const set = toyFilter(words, probes);
  return THOUSAND.filter((word) => toyBits(word, probes).every((bit) => set.has(bit))).length;
}

/** The expected errors by k, a line, and those of the four filters, points: where is the best k? */
function curve(words: string[]): SVGElement {
  const most = 16;
  const share = (k: number): number => (1 - (1 - 1 / BITS) ** (k * words.length)) ** k;
  const x = scaleLinear([1, most], [60, 540]);
  const y = scaleLinear([0, Math.max(0.1, share(1), share(most))], [150, 12]);
  const picture = svg("svg", { viewBox: "0 0 560 190", role: "img", "aria-label": "Errors by k" });
  select(picture).append("g").attr("transform", "translate(0 150)").call(axisBottom(x));
  select(picture).append("g").attr("transform", "translate(60 0)").call(axisLeft(y).ticks(4, "%"));
  const steps = Array.from({ length: most }, (_, at) => at + 1);
  const path = line<number>(x, (k) => y(share(k)))(steps);
  const best = (BITS / Math.max(1, words.length)) * Math.LN2;
  const text = `k; the best is m / n ln 2 = ${significant(best, 2)}`;
  picture.append(
    svg("path", { d: path, class: "curve chosen" }),
    svg("text", { x: 300, y: 185, "text-anchor": "middle" }, text),
    ...PROBES.map((k) => svg("circle", { cx: x(k), cy: y(passing(words, k) / 1000), r: 5 })),
  );
  return picture;
}

export class ToyView {
  readonly element = h("details", { class: "toy card" });
  #words = [...FIRST_WORDS];
  #asked = "goose";
  #list = h("p", {});
  #filters = h("div", { class: "toys" });
  #curve = h("div", { class: "chart" });
  #word = h("input", { id: "toy-word", autocomplete: "off", spellcheck: "false", value: "cat" });
  #ask = h("input", { id: "toy-ask", autocomplete: "off", spellcheck: "false", value: "goose" });

  constructor() {
    const adding = h(
      "form",
      { class: "key-form" },
      h("label", { for: "toy-word" }, "Add a word"),
      this.#word,
      h("button", { type: "submit" }, "Add"),
      button("Start anew", () => this.reset([])),
    );
    adding.addEventListener("submit", (event) => {
      event.preventDefault();
      const word = this.#word.value.trim();
      if (word && !this.#words.includes(word)) this.#words.push(word);
      this.#word.value = "";
      this.#show();
    });
    this.#ask.addEventListener("input", () => this.ask(this.#ask.value.trim()));
    fill(
      this.element,
      h("summary", {}, `A toy filter: ${BITS} bits, words of yours`),
      adding,
      h("div", { class: "key-form" }, h("label", { for: "toy-ask" }, "Is it there?"), this.#ask),
      this.#list,
      this.#filters,
      this.#curve,
      new ShaView().element,
    );
    this.#show();
  }

  /** Begins with the words of the lecture. */
  reset(words = FIRST_WORDS): void {
    this.#words = [...words];
    this.#show();
  }

  ask(word: string): void {
    this.#asked = word;
    if (this.#ask.value.trim() !== word) this.#ask.value = word;
    this.#show();
  }

  #show(): void {
    fill(this.#list, `${count(this.#words.length, "word")}: ${this.#words.join(", ") || "none"}`);
    fill(this.#filters, ...PROBES.map((probes) => this.#drawn(probes)));
    fill(this.#curve, curve(this.#words));
  }

  #drawn(probes: number): HTMLElement {
    const set = toyFilter(this.#words, probes);
    const bits = this.#asked ? toyBits(this.#asked, probes) : [];
    const missing = bits.filter((bit) => !set.has(bit));
    const isThere = this.#words.includes(this.#asked);
    const said = bits.length === 0 ? "" : missing.length > 0 ? "no" : "maybe";
    const words =
      said === ""
        ? "nothing asked"
        : said === "no"
          ? "no: it is certainly not there"
          : isThere
            ? "maybe: it is there"
            : "maybe: a false positive";
    const meaning = said === "no" ? "avoided" : said === "" ? "" : isThere ? "found" : "wasted";
    const label = `${probes} probes: ${set.size} of ${BITS} bits set; ${this.#asked} ${words}`;
    const picture = cells(valuesOf(set, BITS), bits, label);
    return h(
      "figure",
      {},
      h(
        "figcaption",
        {},
        h("b", {}, `k = ${probes}`),
        `: ${set.size} bits set; of 1,000 other words, ${passing(this.#words, probes)} get a maybe`,
      ),
      picture,
      h(
        "figcaption",
        {},
        `“${this.#asked}”: `,
        h("b", { class: meaning ? `is-${meaning}` : null }, words),
      ),
    );
  }
}
