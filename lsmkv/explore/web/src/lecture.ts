// Lecture mode: scenes of one sentence, one question and one number, which shows when it is asked for.

import type { Meaning } from "./answer";
import type { App, State } from "./app";
import type { Lookup } from "./contract";
import { button, fill, h } from "./dom";
import { count, integer, percent, significant } from "./format";
import { item } from "./items";
import { note } from "./links";
import type { LookupView } from "./lookup";
import type { Model } from "./model";
import { savePicture } from "./picture";
import { apart, apartProof, costProof } from "./proof";
import type { SandboxView } from "./sandbox";
import { scored, withArticle } from "./score";
import { spannedIn, sparedIn, whyNoRead, without } from "./stories";
import { FIRST_WORDS, PROBES, type ToyView, toyBits, toyFilter } from "./toy";
import type { WhatIfView } from "./whatif";

interface Scene {
  title: string;
  minutes: number;
  notes: string; // for who speaks
  stage: "cost" | "map" | "what-if" | "sandbox" | "toy";
  sentence: (model: Model) => string;
  question: (state: State) => string;
  told: (state: State) => { value: string; of: string; meaning?: Meaning }; // the number, once it is shown
  begin: () => void;
  step: (by: number) => void; // Infinity goes to the end
  isDone: (state: State) => boolean;
  story?: (model: Model) => Lookup | string; // the lookup that it tells of, or why there is none
  proof?: (lookup: Lookup, state: State) => HTMLElement[];
}

export interface Views {
  lookups: LookupView;
  whatIf: WhatIfView;
  sandbox: SandboxView;
  toy: ToyView;
}

const LONGEST_NAME = 20; // letters of a key in a question
const TOY_QUESTION = "goose"; // one bit of it is set by another word

export class Lecture {
  readonly element = h("section", { class: "lecture", "aria-label": "Lecture", hidden: true });
  /** What a scene shows of its own, beside the map. */
  readonly proof = h("section", { class: "proof card", "aria-label": "Proof", hidden: true });
  /** What a read takes, in the first scene. */
  readonly cost = h("section", { class: "cost card", "aria-label": "What a read costs" });
  #number = h("div", { class: "number", "aria-live": "polite" });
  #notes = h("p", { class: "notes", hidden: true });
  #app: App;
  #at = 0;
  #scenes: Scene[];
  #lookups: LookupView;
  #whatIf: WhatIfView;
  #missing = ""; // why this store has nothing to tell in the scene
  #focused: Element | null = null; // what had the focus before the lecture

  constructor(app: App, views: Views) {
    this.#app = app;
    this.#lookups = views.lookups;
    this.#whatIf = views.whatIf;
    this.#scenes = this.#made(views);
    document.addEventListener("keydown", (event) => this.#key(event));
    app.watch((state, before) => {
      if (
        state.lookup !== before.lookup ||
        state.step !== before.step ||
        state.rate !== before.rate
      )
        this.#prove();
      // The tables of the lookup on show are gone: another one takes its place.
      const isLost = state.model !== before.model && before.asked !== null && !state.asked;
      if (state.isLecture && isLost) queueMicrotask(() => this.#begin());
    });
  }

  #made({ lookups, whatIf, sandbox, toy }: Views): Scene[] {
    const onMap = {
      stage: "map" as const,
      begin: () => {},
      step: (by: number) => (by === Infinity ? lookups.goOn() : lookups.step(by)),
      isDone: ({ lookup, step }: State) => lookup === null || step >= this.#app.stepCount,
    };
    const played = (scene: "write" | "compaction") => ({
      stage: "sandbox" as const,
      begin: () => sandbox.show(scene, () => this.#prove()),
      step: (by: number) => sandbox.step(by),
      isDone: () => sandbox.isAtEnd,
    });
    return [
      {
        title: "What a read costs",
        minutes: 3,
        notes: "Ask for guesses first. A lookup cannot go on before its block has come.",
        stage: "cost",
        sentence: () =>
          "A store keeps entries in blocks on disk. A lookup waits for each block that it reads.",
        question: ({ model }) =>
          `How many blocks does ${withArticle(model.page.devices[0]?.name ?? "disk")} read in a second, one after another?`,
        told: ({ model }) => {
          const [first, ...others] = model.page.devices.map(
            ({ name, read_ms }) => `${integer(1000 / read_ms)} from ${withArticle(name)}`,
          );
          return { value: first?.split(" ")[0] ?? "", of: `only; ${others.join(", ")}` };
        },
        begin: () => {
          this.#isAsked = false;
          fill(this.cost);
        },
        step: () => {
          this.#isAsked = true;
          fill(this.cost, ...costProof(this.#app.state.model.page.devices));
          this.#prove();
        },
        isDone: () => this.#isAsked,
      },
      {
        ...played("write"),
        title: "A write",
        minutes: 5,
        notes: "Arrow down steps. The log survives a kill; a flush writes in order.",
        sentence: () =>
          "A put goes to the end of a log and into memory; a full memtable becomes a sorted run on disk.",
        question: () => "How many places on disk does a put touch before it is safe?",
        told: () => ({ value: "1", of: "place: the end of the log" }),
      },
      {
        ...onMap,
        title: "Which block?",
        minutes: 6,
        notes: "Filters are off here. The line on the map meets one block in each run.",
        sentence: () =>
          "Each table keeps the first key of every block in memory: one search names the only block that could hold a key.",
        question: ({ lookup, model }) =>
          `Of ${count(model.page.map.block_count, "block")}, how many could hold ${named(lookup)}?`,
        told: ({ lookup }) => ({
          value: integer(lookup?.reads_without_filters ?? 0),
          of: "at most one in each run; without filters, each is a read",
          meaning: "wasted",
        }),
        story: (now) => without(spannedIn(now)),
      },
      {
        ...onMap,
        title: "Why filters",
        minutes: 6,
        notes: "The same key, with filters. Which mistake may a filter make?",
        sentence: (now) =>
          `A filter knows the ${now.hasPrefixes ? "prefixes of keys" : "keys"} of its ${granularity(now)} by a few bits each. ` +
          "Its no is certain, and avoids the read.",
        question: ({ lookup }) =>
          `${count(lookup?.reads_without_filters ?? 0, "block")} could hold ${named(lookup)}: how many are read?`,
        told: ({ lookup }) => ({
          value: integer(lookup?.blocks_read ?? 0),
          of: `of ${count(lookup?.reads_without_filters ?? 0, "read")}`,
          meaning:
            lookup && lookup.blocks_read < lookup.reads_without_filters ? "avoided" : "wasted",
        }),
        story: (now) => sparedIn(now, ["absent"]),
      },
      {
        title: "How a filter answers",
        minutes: 7,
        notes: "Let the room find a bit that is not set. One such bit is proof.",
        stage: "toy",
        sentence: () =>
          "A Bloom filter sets k bits for each word. A word with a bit that is not set was never added.",
        question: () => `Was “${TOY_QUESTION}” added? Which of these filters can tell?`,
        told: () => {
          const deny = PROBES.filter((probes) => {
            const set = toyFilter(FIRST_WORDS, probes);
            return toyBits(TOY_QUESTION, probes).some((bit) => !set.has(bit));
          });
          return {
            value: integer(deny.length),
            of: `of ${PROBES.length} say a certain no; with k = 1, another word set its only bit`,
            meaning: "avoided",
          };
        },
        begin: () => {
          toy.element.open = true;
          toy.reset();
          toy.ask("");
          this.#isAsked = false;
        },
        step: () => {
          this.#isAsked = true;
          toy.ask(TOY_QUESTION);
          this.#prove();
        },
        isDone: () => this.#isAsked,
      },
      {
        title: "What p buys",
        minutes: 7,
        notes: "Arrows try other p: each tenth of p costs the same bits again.",
        stage: "what-if",
        sentence: () =>
          "How often a filter errs is a choice, p, paid for in bits: a tenth of p costs a Bloom filter 4.8 bits a key.",
        question: (state) => {
          const { totals } = scored({ model: state.model, rate: 0 });
          return `${count(totals.without, "read")} without filters: how many are left with p = 1 %?`;
        },
        told: (state) => {
          const { totals } = scored(state);
          const p = state.rate === null ? 0 : item(state.model.page.rates, state.rate);
          const one = state.model.page.what_if?.rebuilt.find(
            (made) => made.policy === "bloom" && made.requested_rate === p,
          );
          const keys = state.model.page.what_if?.key_count ?? 1;
          const bits = one ? `, for ${significant(one.bit_count / keys, 3)} bits a key` : "";
          return {
            value: integer(totals.done),
            of: `of ${count(totals.without, "read")} with p = ${percent(p)}${bits}`,
            meaning: totals.done < totals.without ? "avoided" : "wasted",
          };
        },
        story: whyNoRead,
        begin: () => {},
        step: (by) => {
          const { rate, model: now } = this.#app.state;
          if (by === Infinity || rate === null) whatIf.chooseNearest(0.01);
          else whatIf.choose(Math.max(0, Math.min(now.page.rates.length - 1, rate + by)));
        },
        isDone: ({ rate }) => rate !== null,
      },
      {
        ...onMap,
        title: "A filter apart from its block",
        minutes: 4,
        notes: "Where must a filter lie, so that asking it costs no read?",
        sentence: (now) =>
          granularity(now) === "block"
            ? "Each block embeds its filter, and the table holds all of them once more, in one piece that stays in memory."
            : "A table has one filter, apart from its blocks, and it stays in memory.",
        question: ({ lookup }) =>
          `If the filters for ${named(lookup)} lay in their blocks alone, how many reads would asking them take?`,
        told: ({ lookup, step }) => {
          const sum = lookup ? apart(lookup, step) : null;
          return {
            value: integer(sum?.readsWithBlocks ?? 0),
            of: `apart from them: ${count(sum?.reads ?? 0, "read")}`,
            meaning: "wasted",
          };
        },
        story: (now) => sparedIn(now, ["absent", "present"]),
        proof: (lookup, state) => apartProof(lookup, state.step),
      },
      {
        ...played("compaction"),
        title: "What compaction changes",
        minutes: 5,
        notes: "Step: a lookup of three runs, the merge, the same lookup of one run.",
        sentence: (now) =>
          `A compaction merges runs and drops what was overwritten${writtenAgain(now)}.`,
        question: () => "Three runs are merged: how many must a lookup ask then?",
        told: () => ({ value: "1", of: "run; the price is to write what was written" }),
      },
      {
        ...onMap,
        title: "A key that is there",
        minutes: 2,
        notes: "Newer data wins, so the runs below the one that has the key are not asked.",
        sentence: () =>
          "A key that is there costs the read of its block. Filters avoid the reads of the runs above it.",
        question: ({ lookup }) =>
          `${named(lookup)} is in this store: how many blocks does its lookup read?`,
        told: ({ lookup }) => ({
          value: integer(lookup?.blocks_read ?? 0),
          of: `of ${count(lookup?.reads_without_filters ?? 0, "read")} without filters`,
          meaning: "found",
        }),
        story: (now) => sparedIn(now, ["present"]),
      },
    ];
  }

  #isAsked = false;

  get isOn(): boolean {
    return this.#app.state.isLecture;
  }

  /** Begins with a scene, counted from 0. */
  start(scene = 0): void {
    this.#focused = document.activeElement;
    this.element.hidden = false;
    document.body.classList.add("lecturing");
    this.#enter(Math.max(0, Math.min(this.#scenes.length - 1, scene))); // before views measure their room
    this.#app.set({ isLecture: true });
    scrollTo(0, 0);
    this.#show(scene);
  }

  stop(): void {
    this.element.hidden = true;
    this.proof.hidden = true;
    document.body.classList.remove("lecturing");
    delete document.body.dataset.stage;
    this.#app.set({ isLecture: false });
    this.#whatIf.choose(null);
    note({ scene: null });
    const first = this.#app.state.model.examples("absent")[0];
    if (first) this.#app.show(first);
    if (this.#focused instanceof HTMLElement) this.#focused.focus();
  }

  #show(at: number): void {
    this.#at = Math.max(0, Math.min(this.#scenes.length - 1, at));
    note({ scene: String(this.#at) });
    const scene = this.#enter(this.#at);
    const heading = h("h2", { tabindex: -1 }, scene.title);
    const key = (name: string, does: string, act: () => void): HTMLElement =>
      button(name, act, { "aria-label": `${name}: ${does}`, title: does });
    fill(
      this.element,
      h(
        "div",
        { class: "top" },
        h(
          "p",
          { class: "where" },
          `${this.#at} of ${this.#scenes.length - 1} · ${scene.minutes} min`,
        ),
        heading,
        h(
          "p",
          { class: "keys" },
          key("←", "the scene before", () => this.#show(this.#at - 1)),
          key("→", "the next scene", () => this.#show(this.#at + 1)),
          key("↑", "one step back", () => scene.step(-1)),
          key("↓", "one step on", () => scene.step(1)),
          key("r", "once more", () => this.#begin()),
          key("n", "the speaker's notes", this.#tell),
          key("s", "save this scene as a picture", this.#save),
          key("Esc", "leave the lecture", () => this.stop()),
        ),
      ),
      h("p", { class: "sentence" }, unbroken(scene.sentence(this.#app.state.model))),
      this.#number,
      this.#notes,
    );
    this.#notes.textContent = scene.notes;
    heading.focus();
    this.#begin();
  }

  #tell = () => this.#notes.toggleAttribute("hidden");
  #save = () => void savePicture(`scene-${this.#at}`);

  /** Makes a scene the present one for the style. */
  #enter(at: number): Scene {
    const scene = item(this.#scenes, at);
    document.body.dataset.stage = scene.stage;
    return scene;
  }

  /** Begins the present scene with the store's own filters, whatever the scene before chose. */
  #begin(): void {
    const scene = item(this.#scenes, this.#at);
    this.#whatIf.choose(null);
    const story = scene.story?.(this.#app.state.model) ?? null;
    this.#missing = typeof story === "string" ? story : "";
    if (story !== null && typeof story !== "string") this.#lookups.prepare(story);
    else this.#app.set({ asked: null, step: 0 });
    scene.begin();
    this.#prove();
  }

  /** Shows the question, and the number once it was asked for. */
  #prove(): void {
    const { state } = this.#app;
    const scene = this.#scenes[this.#at];
    if (!state.isLecture || !scene) return;
    const isDone = !this.#missing && scene.isDone(state);
    const told = isDone ? scene.told(state) : null;
    this.#number.dataset.shown = String(isDone);
    const held = this.#number.contains(document.activeElement);
    fill(
      this.#number,
      h("p", { class: "question" }, unbroken(this.#missing || scene.question(state))),
      h(
        "p",
        { class: "value" },
        this.#missing
          ? null
          : h("b", { class: told?.meaning ? `is-${told.meaning}` : null }, told ? told.value : "?"),
        told ? h("span", {}, ` ${unbroken(told.of)}`) : null,
        told || this.#missing
          ? null
          : button("Show", () => scene.step(Infinity), { class: "primary", title: "Enter" }),
      ),
    );
    if (held) this.element.querySelector<HTMLElement>("h2")?.focus();
    const parts = state.lookup && isDone ? (scene.proof?.(state.lookup, state) ?? []) : [];
    this.proof.hidden = parts.length === 0;
    fill(this.proof, ...parts);
  }

  #key(event: KeyboardEvent): void {
    const target = event.target instanceof HTMLElement ? event.target : null;
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
    if (target?.matches("input:not([type=range], [type=radio], [type=checkbox]), textarea")) return;
    const { key } = event;
    if (!this.isOn) {
      if (key === "l" && !target?.matches("select")) this.start();
      return;
    }
    // Sliders, lists and buttons of a kind keep their arrows.
    if (key.startsWith("Arrow") && target?.matches("input, select, .steps")) return;
    if (key === "Enter" && target?.matches("button, input, summary")) return;
    const scene = this.#scenes[this.#at];
    if (key === "ArrowRight" || key === "PageDown") this.#show(this.#at + 1);
    else if (key === "ArrowLeft" || key === "PageUp") this.#show(this.#at - 1);
    else if (key === "ArrowDown") scene?.step(1);
    else if (key === "ArrowUp") scene?.step(-1);
    else if (key === "Enter") scene?.step(Infinity);
    else if (/^[0-8]$/.test(key)) this.#show(Number(key));
    else if (key === "r") this.#begin();
    else if (key === "n") this.#tell();
    else if (key === "s") this.#save();
    else if (key === "Escape") this.stop();
    else return;
    event.preventDefault();
  }
}

function named(lookup: Lookup | null): string {
  if (!lookup) return "a key";
  const { text } = lookup.key;
  return `“${text.length > LONGEST_NAME ? `…${text.slice(1 - LONGEST_NAME)}` : text}”`;
}

/** Text whose numbers stay with their signs of percent. */
function unbroken(text: string): string {
  return text.replaceAll(" %", "\u00a0%");
}

/** What a filter covers in this store: a block or a table. */
function granularity(model: Model): string {
  return model.page.map.levels[0]?.runs[0]?.tables[0]?.granularity ?? "block";
}

/** How often this store wrote what was flushed, if its history tells. */
function writtenAgain(model: Model): string {
  const last = model.page.history.steps.at(-1);
  if (!last || last.flushed_bytes === 0 || last.compacted_bytes === 0) return "";
  const times = significant((last.flushed_bytes + last.compacted_bytes) / last.flushed_bytes, 3);
  const runs = model.lanes.length;
  return (
    `: this store wrote ${times} times what was flushed, and ` +
    `${count(runs, "run")} ${runs === 1 ? "is" : "are"} left`
  );
}
