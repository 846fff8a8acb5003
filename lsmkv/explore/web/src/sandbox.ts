// A small store to play with: a class causes what it sees.  Two scenes of the lecture play it.

import { cells, valuesOf } from "./cells";
import { button, fill, h } from "./dom";
import { significant } from "./format";
import { signed } from "./marks";
import { type Block, type Entry, SmallStore } from "./small";

type Act = (store: SmallStore) => void;

const WORDS = "fox hare owl bee fox ant hare cat owl dog elk fox".split(" ");
const PUTS: Act[] = WORDS.map((word, at) => (store) => store.put(word, String(at + 1)));
const ASKED = "cow"; // absent, and between keys of each run
// What is done before a scene, and in it.
const SCENES: Record<"write" | "compaction", [Act[], Act[]]> = {
  write: [[], PUTS.slice(0, 4)],
  compaction: [PUTS, [(one) => one.get(ASKED), (one) => one.compact(), (one) => one.get(ASKED)]],
};

export class SandboxView {
  readonly element = h("details", { class: "sandbox card" });
  #store = new SmallStore();
  #before: Act[] = [];
  #script: Act[] = [];
  #at = 0;
  #changed: () => void = () => {};
  #key = h("input", { id: "small-key", autocomplete: "off", spellcheck: "false", value: "fox" });
  #bits = h("input", { id: "small-bits", type: "number", min: 0, max: 20, value: 10 });
  #text = h("p", { class: "sandbox-text", "aria-live": "polite" });
  #rows = h("div", { class: "rows" });
  #counts = h("dl", { class: "counts" });

  constructor() {
    const does = (name: string, act: (store: SmallStore, key: string) => void): HTMLElement =>
      button(name, () => {
        this.#store.bitsPerKey = Math.min(20, Math.max(0, Number(this.#bits.value) || 0));
        const key = this.#key.value.trim();
        if (key) act(this.#store, key);
        this.#show();
      });
    fill(
      this.element,
      h("summary", {}, "A store to play with: put, delete, flush, compact"),
      h(
        "div",
        { class: "key-form" },
        h("label", { for: "small-key" }, "Key"),
        this.#key,
        does("Put", (store, key) => store.put(key, `value ${store.counts.writes + 1}`)),
        does("Delete", (store, key) => store.put(key, null)),
        does("Get", (store, key) => store.get(key)),
        does("Flush", (store) => store.flush()),
        does("Compact", (store) => store.compact()),
        button("Start anew", () => this.#begin([], [])),
        h("label", { for: "small-bits" }, "Bits a key in new filters"),
        this.#bits,
      ),
      this.#text,
      this.#rows,
      this.#counts,
    );
    this.#begin(PUTS, []); // three runs to begin with
  }

  /** Shows the first step of a scene; `changed` is called after each. */
  show(scene: "write" | "compaction", changed: () => void): void {
    this.element.open = true;
    this.#changed = changed;
    this.#begin(...SCENES[scene]);
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#script.length;
  }

  /** Goes on, or back: then everything up to there is done once more. */
  step(by: number): void {
    this.#at = Math.max(0, Math.min(this.#script.length, this.#at + by));
    this.#store = new SmallStore();
    for (const act of [...this.#before, ...this.#script.slice(0, this.#at)]) act(this.#store);
    this.#show();
  }

  #begin(before: Act[], script: Act[]): void {
    [this.#before, this.#script] = [before, script];
    this.step(-Infinity);
  }

  #show(): void {
    const { log, memtable, runs, counts, text } = this.#store;
    const logged = log.map(({ key, value }) => `${value === null ? "delete" : "put"} ${key}`);
    this.#text.textContent = text;
    fill(
      this.#rows,
      ...row("log", h("code", {}, logged.join("; ") || "empty")),
      ...row("memtable", ...memtable.map(entry)),
      ...runs.flatMap((run) => row(`level ${run.level}`, ...run.blocks.map(drawn))),
    );
    const stored = runs.flatMap((run) => run.blocks.flatMap((block) => block.entries));
    const keys = new Set(stored.map((one) => one.key)).size;
    const times = (n: number, of: number): string => (of > 0 ? significant(n / of, 3) : "–");
    const { writes, written, gets, reads, wasted, avoided } = counts;
    const told: [string, string, string][] = [
      ["write amplification", times(written, writes), `${written} entries for ${writes} writes`],
      ["runs", String(runs.length), "that a lookup may have to ask"],
      ["space amplification", times(stored.length, keys), `${stored.length} entries, ${keys} keys`],
      ["blocks read", String(reads), `in ${gets} gets: ${wasted} wasted, ${avoided} avoided`],
    ];
    fill(
      this.#counts,
      ...told.flatMap(([name, value, of]) => [
        h("dt", {}, name),
        h("dd", {}, h("b", {}, value), h("small", {}, of)),
      ]),
    );
    this.#changed();
  }
}

function row(name: string, ...parts: HTMLElement[]): HTMLElement[] {
  return [h("b", {}, name), h("div", {}, ...parts)];
}

function entry({ key, value }: Entry): HTMLElement {
  return h("span", { class: "entry" }, value === null ? `${key} ✗` : key);
}

/** A block, its filter's bits below it. */
function drawn({ entries, bitCount, bits, probes, mark }: Block): HTMLElement {
  const text = bitCount > 0 ? `${bitCount} bits, ${bits.size} set, k = ${probes}` : "no filter";
  return h(
    "span",
    { class: "block", title: text, "data-mark": mark },
    mark ? signed(mark) : null,
    ...entries.map(entry),
    bitCount > 0 ? cells(valuesOf(bits, bitCount), [], text) : null,
  );
}
