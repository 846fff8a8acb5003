// Lecture mode: six scenes, each a text and a part of the page, changed by the keyboard.

import type { App, State } from "./app";
import type { Lookup } from "./contract";
import { button, fill, h } from "./dom";
import { bytes, count, integer, percent, saved, significant } from "./format";
import { item } from "./items";
import type { LookupView } from "./lookup";
import type { Model } from "./model";
import { again, againProof, apartProof, isSameKey } from "./proof";
import type { TimeView } from "./time";
import type { WhatIfView } from "./whatif";

type Stage = "map" | "what-if" | "time";

interface Scene {
  title: string;
  stage: Stage;
  text: (model: Model) => string[];
  begin: () => void;
  proof?: (lookup: Lookup, state: State) => HTMLElement[];
}

export class Lecture {
  readonly element = h("section", { class: "lecture", "aria-label": "Lecture", hidden: true });
  /** What a scene shows of its own, beside the map. */
  readonly proof = h("section", { class: "proof card", "aria-label": "Proof", hidden: true });
  #app: App;
  #lookups: LookupView;
  #at = 0;
  #scenes: Scene[];
  #second: Lookup | null = null; // the lookup on show, asked again
  #focused: Element | null = null; // what had the focus before the lecture

  constructor(app: App, lookups: LookupView, whatIf: WhatIfView, time: TimeView) {
    this.#app = app;
    this.#lookups = lookups;
    const show = (kinds: Lookup["kind"][], fits: (one: Lookup) => boolean): Lookup | null => {
      const known = kinds.map((kind) =>
        app.state.model.lookupsOf(kind).filter((one) => one.runs.length > 0),
      );
      const fitting = known.map((all) => all.filter(fits));
      const lookup = [...fitting, ...known].map(longest).find((one) => one !== undefined);
      if (lookup) lookups.play(lookup);
      else app.set({ lookup: null, step: 0 });
      return lookup ?? null;
    };
    this.#scenes = [
      {
        title: "What a get costs in an LSM tree",
        stage: "map",
        text: cost,
        begin: () => show(["present", "absent"], () => true),
      },
      {
        title: "Why filters",
        stage: "map",
        text: why,
        begin: () => show(["absent"], (one) => sparesReads(one) && one.false_positives === 0),
      },
      {
        title: "What p buys",
        stage: "what-if",
        text: buys,
        begin: () => whatIf.choose("bloom", 0.01),
      },
      {
        title: "A filter apart from its block",
        stage: "map",
        text: apart,
        begin: () => show(["present", "absent"], sparesReads),
        proof: (lookup, state) => apartProof(lookup, state.step),
      },
      {
        title: "What compaction changes",
        stage: "time",
        text: compaction,
        begin: () => time.play(),
      },
      {
        title: "What learns",
        stage: "map",
        text: learning,
        begin: () => {
          const first = show(
            ["false positive"],
            (one) => asked(one, app.state.model.page.lookups) > 1,
          );
          if (first) void this.#askAgain(first);
        },
        proof: (lookup) => againProof(lookup, this.#second),
      },
    ];
    document.addEventListener("keydown", (event) => this.#key(event));
    app.watch((state, before) => {
      if (state.lookup !== before.lookup || state.step !== before.step) this.#prove();
      // The tables of the lookup on show are gone: another one takes its place.
      const isLost = state.model !== before.model && before.lookup !== null && !state.lookup;
      if (state.isLecture && isLost) queueMicrotask(() => this.#begin());
    });
  }

  get isOn(): boolean {
    return this.#app.state.isLecture;
  }

  start(): void {
    this.#focused = document.activeElement;
    this.element.hidden = false;
    document.body.classList.add("lecturing");
    this.#enter(0); // before views measure what they have room for
    this.#app.set({ isLecture: true });
    scrollTo(0, 0);
    this.#show(0);
  }

  stop(): void {
    this.element.hidden = true;
    this.proof.hidden = true;
    document.body.classList.remove("lecturing");
    delete document.body.dataset.stage;
    delete document.body.dataset.scene;
    this.#app.set({ isLecture: false });
    if (this.#focused instanceof HTMLElement) this.#focused.focus();
  }

  #show(at: number): void {
    this.#at = Math.max(0, Math.min(this.#scenes.length - 1, at));
    const scene = this.#enter(this.#at);
    const heading = h("h2", { tabindex: -1 }, scene.title);
    const key = (name: string, does: string, act: () => void): HTMLElement =>
      button(name, act, { "aria-label": `${name}: ${does}`, title: does });
    const isMap = scene.stage === "map";
    const keys = [
      key("←", "the scene before", () => this.#show(this.#at - 1)),
      key("→", "the next scene", () => this.#show(this.#at + 1)),
      isMap ? key("↑", "one step back", () => this.#lookups.step(-1)) : null,
      isMap ? key("↓", "one step on", () => this.#lookups.step(1)) : null,
      key("r", "once more", () => this.#begin()),
      key("Esc", "leave the lecture", () => this.stop()),
    ];
    fill(
      this.element,
      h(
        "div",
        { class: "top" },
        h("p", { class: "where" }, `${this.#at + 1} of ${this.#scenes.length}`),
        heading,
        h("p", { class: "keys" }, ...keys),
      ),
      ...scene.text(this.#app.state.model).map((text) => h("p", {}, unbroken(text))),
    );
    heading.focus();
    this.#begin();
  }

  /** Makes a scene the present one for the style. */
  #enter(at: number): Scene {
    const scene = item(this.#scenes, at);
    document.body.dataset.stage = scene.stage;
    document.body.dataset.scene = String(at + 1);
    return scene;
  }

  #begin(): void {
    this.#second = null;
    this.#scenes[this.#at]?.begin();
    this.#prove();
  }

  async #askAgain(first: Lookup): Promise<void> {
    const second = await again(this.#app, first).catch(() => null); // the first one tells enough
    if (this.#app.state.lookup !== first) return;
    this.#second = second;
    this.#prove();
  }

  #prove(): void {
    const { state } = this.#app;
    const scene = this.#scenes[this.#at];
    const isShown = state.isLecture && state.lookup !== null && scene?.proof !== undefined;
    this.proof.hidden = !isShown;
    fill(
      this.proof,
      ...(isShown && state.lookup ? (scene.proof?.(state.lookup, state) ?? []) : []),
    );
  }

  #key(event: KeyboardEvent): void {
    const target = event.target instanceof HTMLElement ? event.target : null;
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
    if (target?.matches("input:not([type=range], [type=radio]), textarea")) return;
    const { key } = event;
    if (!this.isOn) {
      if (key === "l" && !target?.matches("select")) this.start();
      return;
    }
    // Sliders, lists and buttons of a kind keep their arrows.
    if (key.startsWith("Arrow") && target?.matches("input, select, .steps")) return;
    const isMap = this.#scenes[this.#at]?.stage === "map";
    if (key === "ArrowRight" || key === "PageDown") this.#show(this.#at + 1);
    else if (key === "ArrowLeft" || key === "PageUp") this.#show(this.#at - 1);
    else if (key === "ArrowDown" && isMap) this.#lookups.step(1);
    else if (key === "ArrowUp" && isMap) this.#lookups.step(-1);
    else if (/^[1-6]$/.test(key)) this.#show(Number(key) - 1);
    else if (key === "r") this.#begin();
    else if (key === "Escape") this.stop();
    else return;
    event.preventDefault();
  }
}

/** Whether filters spared a lookup reads; those of blocks in the cache are none. */
function sparesReads(one: Lookup): boolean {
  return one.reads_without_filters > one.blocks_read;
}

/** How often lookups asked for the same key. */
function asked(one: Lookup, lookups: Lookup[]): number {
  return lookups.filter((other) => isSameKey(one, other)).length;
}

/** The lookup that went through the most runs; of false positives, one that cost a read. */
function longest(lookups: Lookup[]): Lookup | undefined {
  const rank = (one: Lookup): number =>
    one.runs.length +
    (one.kind === "false positive" && one.blocks_read > 0 ? 1e6 : 0) -
    Math.abs(one.position - 0.4); // where there is room for words beside it
  return lookups.reduce<Lookup | undefined>(
    (best, lookup) => (!best || rank(lookup) > rank(best) ? lookup : best),
    undefined,
  );
}

/** Text whose numbers stay with their signs of percent. */
function unbroken(text: string): string {
  return text.replaceAll(" %", "\u00a0%");
}

/** Some things in a row: "a, b and c". */
function listed(things: string[]): string {
  return [things.slice(0, -1).join(", "), ...things.slice(-1)].filter(Boolean).join(" and ");
}

/** Totals of recorded lookups of some kinds. */
function totals(lookups: Lookup[]): { reads: number; without: number; asked: number } {
  return {
    reads: lookups.reduce((sum, one) => sum + one.blocks_read, 0),
    without: lookups.reduce((sum, one) => sum + one.reads_without_filters, 0),
    asked: lookups.reduce((sum, one) => sum + one.filters_asked, 0),
  };
}

function cost(model: Model): string[] {
  const { map } = model.page;
  const runs = model.lanes.length;
  return [
    `New writes are in memory; ${count(runs, "sorted run")} on disk ${runs === 1 ? "holds" : "hold"} the rest: ` +
      `${count(map.entry_count, "entry", "entries")} in ${bytes(map.size_bytes)}.`,
    "A get asks the newest data first, and stops where it finds the key. The line shows its way.",
    `At worst it searches a block in every run: ${count(runs, "read")} for one key.`,
  ];
}

function why(model: Model): string[] {
  const lookups = model.lookupsOf("absent");
  const { reads, without } = totals(lookups);
  return [
    "An absent key is the worst case: it is in no run, so nothing ends the search.",
    `A filter knows the keys of its ${granularity(model)} by a few bits each. Its no is certain, and spares the read.`,
    `Of ${integer(lookups.length)} absent keys here: ${count(without, "read")} without filters, ${integer(reads)} with them.`,
  ];
}

/** What a filter covers in this store: a block or a table. */
function granularity(model: Model): string {
  return model.page.map.levels[0]?.runs[0]?.tables[0]?.granularity ?? "block";
}

function buys(model: Model): string[] {
  const data = model.page.what_if;
  if (!data) return ["This store has no block to try filters on."];
  const shown = [0.1, 0.01, 0.001].flatMap(
    (rate) =>
      data.rebuilt.find((one) => one.policy === "bloom" && one.requested_rate === rate) ?? [],
  );
  const keys = Math.max(1, data.key_count);
  const bits = shown.map((one) => significant(one.bit_count / keys, 3));
  return [
    "A filter errs by saying maybe. How often is a choice, paid for in bits.",
    `With p of ${listed(shown.map((one) => percent(one.requested_rate)))}, ${listed(bits)} bits a key ` +
      `save ${listed(shown.map((one) => saved(1 - one.exact_rate)))} of the reads.`,
    "Each tenth of p costs a Bloom filter 4.8 bits a key. Choose a kind and move the slider.",
  ];
}

function apart(model: Model): string[] {
  const { map, memory, source } = model.page;
  const share = map.size_bytes ? map.filter_bytes / map.size_bytes : 0;
  const isBlock = granularity(model) === "block";
  const isOff = source.options.filter_residency === "off";
  return [
    isBlock
      ? "Each block embeds its filter. But a filter that is read with its block spares nothing."
      : "To ask a filter inside a block is to read the block: it would spare nothing.",
    isBlock
      ? "So a table keeps all its filters together once more, and the store holds these in memory."
      : "So each table here has one filter apart from its blocks, and the store holds it in memory.",
    isOff
      ? "This page opened the store with its filters off."
      : `Here filters take ${bytes(map.filter_bytes)}, ${percent(share)} of the tables; ` +
        `${bytes(memory.filters ?? 0)} are in memory.`,
  ];
}

function compaction(model: Model): string[] {
  const last = model.page.history.steps.at(-1);
  const lanes = model.lanes.length;
  const factor =
    last && last.flushed_bytes > 0
      ? significant((last.flushed_bytes + last.compacted_bytes) / last.flushed_bytes, 3)
      : null;
  return [
    "A flush adds a run, and each run may cost a lookup one more read.",
    "A compaction merges runs into one: fewer runs to ask, no overwritten entries, filters built anew.",
    factor === null
      ? `This store has ${count(lanes, "run")} now.`
      : `The price is writing again: ${factor} times the bytes flushed were written in all. ${count(lanes, "run")} are left now.`,
  ];
}

function learning(model: Model): string[] {
  const isOn = model.page.source.options.adaptive_filters === true;
  const lessons = model.page.stats.filter_lessons ?? 0;
  return [
    "The same absent key passes a filter each time it is asked: one false positive, many reads.",
    "With adaptive_filters, ribbon filters in memory learn to deny it after its first read.",
    isOn
      ? `This page opened the store so; its filters learnt ${count(lessons, "time")}.`
      : "This page opened the store without; --set filter_policy=ribbon --set adaptive_filters=true " +
        "changes that for ribbon filters.",
  ];
}
