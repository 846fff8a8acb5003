// How keys flow: log, memtable, runs, and a compaction that merges them, frame by frame.

import { fill, h, svg } from "./dom";
import { count, significant } from "./format";
import { item } from "./items";

const WRITES = [
  "fox",
  "hare",
  "owl",
  "bee",
  "fox",
  "ant",
  "hare",
  "cat",
  "owl",
  "dog",
  "elk",
  "fox",
];
const MEMTABLE = 4; // keys; a full one is flushed
const FRAME_MS = 650;
const BOX = { width: 62, height: 30, gap: 6 };
const ROWS = ["log", "memtable", "level 0", "", "", "level 1"];
const TOP = 8;
const ROW = 46;
const LEFT = 96;
const WIDE = LEFT + 8 * (BOX.width + BOX.gap);

/** One written entry; the place is null once it is gone. */
export interface Entry {
  key: string;
  version: number;
  place: { row: number; at: number } | null;
}

export interface Frame {
  entries: Entry[];
  logged: string[]; // keys in the log since the last flush
  puts: number;
  written: number; // entries written to tables, by flushes and compactions
  runs: number;
  text: string;
}

/** The frames of twelve puts, three flushes and one compaction. */
export function framesOf(writes: string[]): Frame[] {
  const frames: Frame[] = [];
  let entries: Entry[] = [];
  let logged: string[] = [];
  let [puts, written, runs] = [0, 0, 0];
  const note = (text: string): void => {
    frames.push({ entries, logged, puts, written, runs, text });
  };
  const inRow = (row: number): Entry[] =>
    entries
      .filter((one) => one.place?.row === row)
      .sort((a, b) => (a.place?.at ?? 0) - (b.place?.at ?? 0));
  note("An empty store: nothing in the log, nothing in memory.");
  for (const key of writes) {
    puts += 1;
    logged = [...logged, key];
    const held = entries.find((one) => one.place?.row === 1 && one.key === key);
    if (held) entries = entries.filter((one) => one !== held);
    entries = [...entries, { key, version: puts, place: { row: 1, at: 0 } }];
    entries = sorted(entries, 1);
    note(`put ${key}: to the end of the log, and into the memtable, which is sorted.`);
    if (inRow(1).length < MEMTABLE) continue;
    // Runs on level 0: the newest on top.
    entries = entries.map((one) => {
      const { place } = one;
      if (place?.row === 1) return { ...one, place: { ...place, row: 2 } };
      return place ? { ...one, place: { ...place, row: place.row + 1 } } : one;
    });
    written += inRow(2).length;
    runs += 1;
    logged = [];
    note("The memtable is full: a flush writes it as one sorted run. Its log can go.");
  }
  note(`${count(runs, "run")}: a lookup may have to ask each of them. Some keys are there twice.`);
  for (const key of [...new Set(entries.map((one) => one.key))].sort()) {
    const versions = entries.filter((one) => one.key === key && one.place);
    const newest = versions.reduce((best, one) => (one.version > best.version ? one : best));
    const at = inRow(5).length;
    entries = entries.map((one) => {
      if (one === newest) return { ...one, place: { row: 5, at } };
      return versions.includes(one) ? { ...one, place: null } : one;
    });
    written += 1;
    const old = versions.length - 1;
    note(`The merge takes ${key}${old > 0 ? `, and drops ${count(old, "older version")}` : ""}.`);
  }
  runs = 1;
  note("One run, each key once: the compaction is done.");
  return frames;
}

function sorted(entries: Entry[], row: number): Entry[] {
  const order = entries
    .filter((one) => one.place?.row === row)
    .map((one) => one.key)
    .sort();
  return entries.map((one) =>
    one.place?.row === row ? { ...one, place: { row, at: order.indexOf(one.key) } } : one,
  );
}

export class FlowView {
  readonly element = h("section", { class: "flow card", "aria-label": "How keys flow" });
  #frames = framesOf(WRITES);
  #picture = svg("svg", { viewBox: `0 0 ${WIDE} ${TOP + ROWS.length * ROW}`, role: "img" });
  #boxes = new Map<number, SVGGElement>();
  #log = svg("text", { x: LEFT, y: TOP + 20, class: "log" });
  #text = h("p", { class: "flow-text", "aria-live": "polite" });
  #counts = h("dl", { class: "flow-counts" });
  #from = 0;
  #to = 0;
  #at = 0;
  #timer = 0;
  #changed: () => void = () => {};

  constructor() {
    ROWS.forEach((name, row) => {
      const y = TOP + row * ROW;
      if (name) this.#picture.append(svg("text", { x: 0, y: y + 20 }, name));
      this.#picture.append(
        svg("rect", { x: LEFT - 4, y: y - 3, width: WIDE - LEFT, height: ROW - 8, class: "place" }),
      );
    });
    this.#picture.append(this.#log);
    for (const { version, key } of this.#frames.flatMap((frame) => frame.entries)) {
      if (this.#boxes.has(version)) continue;
      const box = svg(
        "g",
        { class: "entry" },
        svg("rect", { width: BOX.width, height: BOX.height, rx: 5 }),
        svg("text", { x: BOX.width / 2, y: 20, "text-anchor": "middle" }, key),
      );
      this.#boxes.set(version, box);
      this.#picture.append(box);
    }
    fill(this.element, this.#text, this.#picture, this.#counts);
    this.show("write", () => {});
  }

  /** Shows the first frame of a part; `changed` is called after each step. */
  show(part: "write" | "compaction", changed: () => void): void {
    const flushed = this.#frames.findIndex((frame) => frame.runs === 1);
    const merging = this.#frames.findIndex((frame) => frame.text.startsWith("The merge"));
    [this.#from, this.#to] =
      part === "write" ? [0, flushed] : [merging - 1, this.#frames.length - 1];
    this.#changed = changed;
    this.stop();
    this.#go(this.#from);
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#to;
  }

  step(by: number): void {
    this.stop();
    this.#go(Math.max(this.#from, Math.min(this.#to, this.#at + by)));
  }

  /** Plays what is left; at once for people who want no motion. */
  play(): void {
    this.stop();
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.step(Infinity);
      return;
    }
    this.#timer = window.setInterval(() => {
      if (this.isAtEnd) this.stop();
      else this.#go(this.#at + 1);
    }, FRAME_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #go(at: number): void {
    this.#at = at;
    const frame = item(this.#frames, at);
    const shown = new Map(frame.entries.map((entry) => [entry.version, entry.place]));
    for (const [version, box] of this.#boxes) {
      const place = shown.get(version);
      box.classList.toggle("gone", !place);
      const { row, at: column } = place ?? { row: shown.has(version) ? 5 : 0, at: 7 };
      const x = LEFT + column * (BOX.width + BOX.gap);
      box.style.setProperty("transform", `translate(${x}px, ${TOP + row * ROW}px)`);
    }
    this.#log.textContent = frame.logged.map((key) => `put ${key}`).join("  ");
    this.#text.textContent = frame.text;
    this.#picture.setAttribute("aria-label", frame.text);
    const stored = frame.entries.filter((one) => one.place && one.place.row > 1);
    const distinct = new Set(stored.map((one) => one.key)).size;
    const times = (n: number, of: number): string => (of > 0 ? significant(n / of, 3) : "–");
    fill(
      this.#counts,
      ...this.#count(
        "write amplification",
        times(frame.written, frame.puts),
        `${count(frame.written, "entry", "entries")} written to tables for ${count(frame.puts, "put")}`,
      ),
      ...this.#count(
        "read amplification",
        String(frame.runs),
        `${frame.runs === 1 ? "run" : "runs"} that a lookup may have to ask`,
      ),
      ...this.#count(
        "space amplification",
        times(stored.length, distinct),
        `${count(stored.length, "entry", "entries")} for ${count(distinct, "key")}`,
      ),
    );
    this.#changed();
  }

  #count(name: string, value: string, of: string): HTMLElement[] {
    return [h("dt", {}, name), h("dd", {}, h("b", {}, value), h("small", {}, of))];
  }
}
