// The toy of many tutorials: three SHA hashes, 32 bits; with counters, words can be removed.

import { cells } from "./cells";
import { button, fill, h } from "./dom";
import { item } from "./items";

const BITS = 32;
const HASHES = ["SHA-1", "SHA-256", "SHA-512"];

/** A word's bits: the first 8 bytes of each hash, modulo 32. */
async function bitsOf(word: string): Promise<number[]> {
  const digests = HASHES.map((name) =>
    crypto.subtle.digest(name, new TextEncoder().encode(word)).then((made) => new Uint8Array(made)),
  );
  return (await Promise.all(digests)).map((digest) => item(digest, 7) % BITS);
}

export class ShaView {
  readonly element = h("div", { class: "sha" });
  #counters = Array<number>(BITS).fill(0);
  #added = new Set<string>();
  #word = h("input", { id: "sha-word", autocomplete: "off", spellcheck: "false", value: "foo" });
  #counts = h("input", { type: "checkbox" });
  #cells = h("p");
  #said = h("p", { "aria-live": "polite" });

  constructor() {
    // Browsers hash on pages from files and over https, and on none from elsewhere.
    if (!crypto.subtle) return;
    const change = (by: 1 | -1): void => void this.#change(by);
    this.#word.addEventListener("input", () => void this.#show());
    this.#counts.addEventListener("change", () => this.#reset());
    fill(
      this.element,
      h("h3", {}, `Three hashes of the SHA family, ${BITS} bits: add foo and baz, remove baz`),
      h(
        "div",
        { class: "key-form" },
        h("label", { for: "sha-word" }, "Word"),
        this.#word,
        button("Add", () => change(1)),
        button("Remove", () => change(-1)),
        button("Start anew", () => this.#reset()),
      ),
      h("label", {}, this.#counts, " counters in place of bits"),
      this.#cells,
      this.#said,
    );
    void this.#show();
  }

  #reset(): void {
    this.#counters.fill(0);
    this.#added.clear();
    void this.#show();
  }

  /** Adds or removes the word: counters count, and bits are set or cleared; a no is not removed. */
  async #change(by: 1 | -1): Promise<void> {
    const word = this.#word.value;
    const bits = await bitsOf(word);
    if (by > 0) this.#added.add(word);
    else if (bits.some((bit) => this.#counters[bit] === 0)) return;
    else this.#added.delete(word);
    for (const bit of bits)
      this.#counters[bit] = this.#counts.checked
        ? Math.max(0, item(this.#counters, bit) + by)
        : Math.max(0, by);
    void this.#show();
  }

  async #show(): Promise<void> {
    const word = this.#word.value;
    const bits = await bitsOf(word);
    if (word !== this.#word.value) return;
    fill(this.#cells, cells(this.#counters, bits, `${this.#counters.join(" ")}: the bits`, true));
    const isNo = bits.some((bit) => this.#counters[bit] === 0);
    const isAdded = this.#added.has(word);
    const told = isNo
      ? ["no", isAdded ? ", though it was added: no filter may ever say this" : ""]
      : ["maybe", isAdded ? "" : ", though it was not added: a false positive"];
    const meaning = told[1] ? "is-wasted" : isNo ? "is-avoided" : "is-found";
    fill(
      this.#said,
      `“${word}” has the bits ${bits.join(", ")}: `,
      h("b", { class: meaning }, ...told),
      `. Added: ${[...this.#added].join(", ") || "none"}.`,
    );
  }
}
