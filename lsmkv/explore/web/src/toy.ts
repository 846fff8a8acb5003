// A toy filter: add words and watch bits, with several numbers of probes side by side.
// Its hash is simple and its filters are tiny; those of stores differ in both.

import { button, fill, h, svg } from "./dom";
import { count } from "./format";

const BITS = 64;
export const PROBES = [1, 2, 4, 8];
const COLUMNS = 16;
const CELL = 14;
const FIRST_WORDS = ["fox", "hare", "owl", "bee", "ant", "dog"];

const THOUSAND = Array.from({ length: 1000 }, (_, at) => `other word ${at}`);

/** The bits of a word: two halves of one hash, one added to the other k times. */
export function toyBits(word: string, probes: number): number[] {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(word))
    hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) >>> 0;
  hash = Math.imul(hash ^ (hash >>> 12), 0x297a2d39) >>> 0;
  const [start, step] = [hash & 0xffff, (hash >>> 16) | 1];
  return Array.from({ length: probes }, (_, at) => (start + at * step) % BITS);
}

/** Which bits the words set. */
export function toyFilter(words: string[], probes: number): Set<number> {
  return new Set(words.flatMap((word) => toyBits(word, probes)));
}

export class ToyView {
  readonly element = h("details", { class: "toy card" });
  #words = [...FIRST_WORDS];
  #asked = "crow";
  #list = h("p", {});
  #filters = h("div", { class: "toys" });
  #word = h("input", { id: "toy-word", autocomplete: "off", spellcheck: "false", value: "cat" });
  #ask = h("input", { id: "toy-ask", autocomplete: "off", spellcheck: "false", value: "crow" });

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
    const rows = BITS / COLUMNS;
    const picture = svg("svg", {
      viewBox: `-3 -3 ${COLUMNS * CELL + 6} ${rows * CELL + 6}`,
      role: "img",
      "aria-label": `${probes} probes: ${set.size} of ${BITS} bits set; ${this.#asked} ${words}`,
    });
    for (let bit = 0; bit < BITS; bit++) {
      const [x, y] = [(bit % COLUMNS) * CELL, Math.floor(bit / COLUMNS) * CELL];
      const box = { x, y, width: CELL - 2, height: CELL - 2 };
      picture.append(svg("rect", { ...box, class: set.has(bit) ? "bit-set" : "bit-unset" }));
      if (bits.includes(bit)) {
        const ring = { x: x - 1.5, y: y - 1.5, width: CELL + 1, height: CELL + 1 };
        picture.append(svg("rect", { ...ring, class: "bit-asked", rx: set.has(bit) ? 8 : 0 }));
      }
    }
    const passing = THOUSAND.filter((word) => toyBits(word, probes).every((bit) => set.has(bit)));
    return h(
      "figure",
      {},
      h(
        "figcaption",
        {},
        h("b", {}, `k = ${probes}`),
        `: ${set.size} bits set; of 1,000 other words, ${passing.length} get a maybe`,
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
