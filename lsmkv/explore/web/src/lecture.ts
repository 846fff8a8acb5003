// Lecture mode: six scenes, each a text and a part of the page, changed by the keyboard.

import type { App } from "./app";
import type { Lookup } from "./contract";
import { button, fill, h } from "./dom";
import { bytes, count, integer, percent, saved, significant } from "./format";
import type { LookupView } from "./lookup";
import type { Model } from "./model";
import type { TimeView } from "./time";
import type { WhatIfView } from "./whatif";

type Stage = "map" | "what-if" | "time";

interface Scene {
  title: string;
  stage: Stage;
  text: (model: Model) => string[];
  begin: () => void;
}

export class Lecture {
  readonly element = h("section", { class: "lecture", "aria-label": "Lecture", hidden: true });
  #app: App;
  #at = 0;
  #isOn = false;
  #scenes: Scene[];

  constructor(app: App, lookups: LookupView, whatIf: WhatIfView, time: TimeView) {
    this.#app = app;
    const show = (kinds: Lookup["kind"][]): void => {
      for (const kind of kinds) {
        const lookup = longest(app.state.model.lookupsOf(kind));
        if (!lookup) continue;
        lookups.play(lookup);
        return;
      }
    };
    this.#scenes = [
      {
        title: "What a get costs in an LSM tree",
        stage: "map",
        text: cost,
        begin: () => show(["present"]),
      },
      {
        title: "Why filters",
        stage: "map",
        text: why,
        begin: () => show(["absent"]),
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
        begin: () => show(["false positive", "absent"]),
      },
      {
        title: "What compaction changes",
        stage: "time",
        text: compaction,
        begin: () => time.play(),
      },
      { title: "What learns", stage: "map", text: learning, begin: () => show(["false positive"]) },
    ];
    document.addEventListener("keydown", (event) => this.#key(event));
  }

  get isOn(): boolean {
    return this.#isOn;
  }

  start(): void {
    this.#isOn = true;
    this.element.hidden = false;
    document.body.classList.add("lecturing");
    this.#show(0);
  }

  stop(): void {
    this.#isOn = false;
    this.element.hidden = true;
    document.body.classList.remove("lecturing");
    delete document.body.dataset.stage;
  }

  #show(at: number): void {
    this.#at = Math.max(0, Math.min(this.#scenes.length - 1, at));
    const scene = this.#scenes[this.#at];
    if (!scene) return;
    document.body.dataset.stage = scene.stage;
    const heading = h("h2", { tabindex: -1 }, scene.title);
    fill(
      this.element,
      h("p", { class: "where" }, `${this.#at + 1} of ${this.#scenes.length}`),
      heading,
      ...scene.text(this.#app.state.model).map((text) => h("p", {}, text)),
      h(
        "p",
        { class: "keys" },
        button("← back", () => this.#show(this.#at - 1)),
        button("next →", () => this.#show(this.#at + 1)),
        button("r: once more", () => scene.begin()),
        button("Esc: leave", () => this.stop()),
      ),
    );
    heading.focus();
    scene.begin();
  }

  #key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement | null;
    const isTyping = target !== null && /^(INPUT|SELECT|TEXTAREA|CANVAS)$/.test(target.tagName);
    if (event.altKey || event.ctrlKey || event.metaKey || isTyping) return;
    if (!this.#isOn) {
      if (event.key === "l") this.start();
      return;
    }
    if (event.key === "ArrowRight" || event.key === "PageDown") this.#show(this.#at + 1);
    else if (event.key === "ArrowLeft" || event.key === "PageUp") this.#show(this.#at - 1);
    else if (/^[1-6]$/.test(event.key)) this.#show(Number(event.key) - 1);
    else if (event.key === "r") this.#scenes[this.#at]?.begin();
    else if (event.key === "Escape") this.stop();
    else return;
    event.preventDefault();
  }
}

/** The lookup that went through the most runs. */
function longest(lookups: Lookup[]): Lookup | undefined {
  return lookups.reduce<Lookup | undefined>(
    (best, lookup) => (!best || lookup.runs.length > best.runs.length ? lookup : best),
    undefined,
  );
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
    "A filter knows the keys of its block by a few bits each. Its no is certain, and spares the read.",
    `Of ${integer(lookups.length)} absent keys here: ${count(without, "read")} without filters, ${integer(reads)} with them.`,
  ];
}

function buys(model: Model): string[] {
  const data = model.page.what_if;
  if (!data) return ["This store has no block to try filters on."];
  const line = [0.1, 0.01, 0.001].flatMap((rate) => {
    const one = data.rebuilt.find((r) => r.policy === "bloom" && r.requested_rate === rate);
    if (!one) return [];
    const bits = significant(one.bit_count / Math.max(1, data.key_count), 3);
    return [`p = ${percent(rate)}: ${bits} bits per key save ${saved(1 - one.exact_rate)}`];
  });
  return [
    "A filter errs by saying maybe. How often is a choice, paid for in bits.",
    `${line.join("; ")}.`,
    "Each tenth of p costs a Bloom filter 4.8 bits a key. Choose a kind and move the slider.",
  ];
}

function apart(model: Model): string[] {
  const { map, memory } = model.page;
  const share = map.size_bytes ? map.filter_bytes / map.size_bytes : 0;
  return [
    "Each block embeds its filter. But a filter that is read with its block spares nothing.",
    "So a table keeps all its filters together once more, and the store holds these in memory.",
    `Here filters take ${bytes(map.filter_bytes)}, ${percent(share)} of the tables; ` +
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
      : "This page opened the store without; --set adaptive_filters=true changes that for ribbon filters.",
  ];
}
