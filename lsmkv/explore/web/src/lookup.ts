// A lookup, step by step: its way through the store, the bits it asked for, and typing another key.

import type { App, State } from "./app";
import type { Lookup, LookupRequest, MemtableStep, RunStep } from "./contract";
import { button, fill, h } from "./dom";
import { bytes, count } from "./format";
import { lookUpHere } from "./here";
import { item } from "./items";
import { eightBytes, fromHex, fromText, inHex } from "./keys";
import { note } from "./links";
import { inShort, inWords, signed, wasAsked } from "./marks";
import { markOf } from "./model";
import { answerInWords, raster } from "./raster";
import { sum } from "./variants";

export type Pick = "present" | "absent" | "false positive";
type Form = NonNullable<LookupRequest["form"]>;

const STEP_MS = 900;
const MANY_STEPS = 8; // of more, a lecture shows like ones as one

export class LookupView {
  readonly element: HTMLElement;
  readonly form: HTMLElement; // beside the buttons that pick a key
  #app: App;
  #key = h("input", { id: "key", autocomplete: "off", spellcheck: "false" });
  #form = h("select", { id: "key-form", "aria-label": "How the key is written" });
  #problem = h("p", { class: "failure", role: "alert" });
  #asked = h("div", { class: "asked" });
  #at = h("span", { "aria-live": "polite" });
  #player = h(
    "div",
    { class: "player", role: "group", "aria-label": "Steps" },
    button("First", () => this.step(-Infinity), { "aria-label": "First step" }),
    button("Back", () => this.step(-1), { "aria-label": "Step back" }),
    button("Next", () => this.step(1), { "aria-label": "Step forward" }),
    button("Last", () => this.step(Infinity), { "aria-label": "Last step" }),
    this.#at,
  );
  #steps = h("ol", { class: "steps", tabindex: 0, "aria-label": "The way through the store" });
  #end = h("div", { class: "end" });
  #next: Record<Pick, number> = { present: 0, absent: 0, "false positive": 0 };
  #timer = 0;

  constructor(app: App) {
    this.#app = app;
    this.form = h(
      "form",
      { class: "key-form" },
      h("label", { for: "key" }, "Key"),
      this.#key,
      this.#form,
      h("button", { type: "submit", class: "primary" }, "Look up"),
    );
    for (const [value, text] of [
      ["text", "text"],
      ["hex", "hex"],
      ["number", "number, 8 bytes"],
    ] as const)
      this.#form.append(h("option", { value }, text));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#typed();
    });
    this.element = h(
      "section",
      { class: "lookup card", "aria-label": "Lookup" },
      h("h2", {}, "Its way through the store"),
      this.#problem,
      h("div", { class: "path" }, this.#asked, this.#player, this.#steps, this.#end),
    );
    app.watch((state, before) => {
      if (
        state.lookup !== before.lookup ||
        state.step !== before.step ||
        state.colours !== before.colours ||
        state.isLecture !== before.isLecture ||
        state === before
      )
        this.#showPath(state);
    });
  }

  /** Shows the next key of a kind, and plays its steps. */
  async pick(pick: Pick): Promise<void> {
    const { server } = this.#app;
    if (server) return this.#ask({ key: "", form: "text", pick });
    const recorded = this.#app.state.model.examples(pick);
    if (recorded.length === 0)
      return this.#fail(
        `No ${pick === "false positive" ? pick : `${pick} key`} was found in this store.`,
      );
    // The first one of all is on show when the page opens.
    if (item(recorded, this.#next[pick] % recorded.length) === this.#app.state.asked)
      this.#next[pick] += 1;
    const at = this.#next[pick]++ % recorded.length;
    this.play(item(recorded, at));
  }

  /** Shows a lookup and plays its steps; at once for people who want no motion. */
  play(lookup: Lookup): void {
    this.#problem.textContent = "";
    clearInterval(this.#timer);
    if (!this.#app.state.isLecture) note({ key: lookup.key.text });
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.#app.show(lookup, isStill ? undefined : 0);
    if (!isStill) this.#run();
  }

  /** Shows a lookup before its first step. */
  prepare(lookup: Lookup): void {
    clearInterval(this.#timer);
    this.#app.show(lookup, 0);
  }

  /** Plays the steps that are left. */
  goOn(): void {
    clearInterval(this.#timer);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) this.step(Infinity);
    else this.#run();
  }

  /** Goes one step forward or back, and stops playing. */
  step(by: number): void {
    clearInterval(this.#timer);
    const to = this.#app.state.step + by;
    this.#app.set({ step: Math.max(0, Math.min(this.#app.stepCount, to)) });
  }

  #run(): void {
    const forward = (): void => {
      const { step } = this.#app.state;
      if (step >= this.#app.stepCount) clearInterval(this.#timer);
      else this.#app.set({ step: step + 1 });
    };
    forward();
    this.#timer = window.setInterval(forward, STEP_MS);
  }

  async #typed(): Promise<void> {
    return this.find(this.#key.value, this.#form.value as Form);
  }

  /** Looks a key up; in a file, as it was recorded, or by what the page holds. */
  async find(typed: string, form: Form): Promise<void> {
    if (this.#app.server) return this.#ask({ key: typed, form, pick: null });
    const { model } = this.#app.state;
    try {
      const hex = form === "number" ? eightBytes(typed) : typed.replaceAll(" ", "");
      if (form === "number" && !hex) throw new Error("A number has digits, and 8 bytes at most.");
      const key = form === "text" ? fromText(typed) : fromHex(hex);
      const found = model.page.lookups.find(({ key: { hex, byte_count } }) => {
        return byte_count === key.length && hex === inHex(key) && byte_count * 2 === hex.length;
      });
      const isWhole = model.page.lookups.find((one) => form === "text" && one.key.text === typed);
      this.play(found ?? isWhole ?? lookUpHere(model, key, form === "text" ? typed : `0x${hex}`));
    } catch (error) {
      this.#fail(error instanceof Error ? error.message : String(error));
    }
  }

  async #ask(request: LookupRequest): Promise<void> {
    const { server } = this.#app;
    if (!server) return;
    try {
      const reply = await server.lookUp(request);
      this.#app.state.model.take(reply);
      this.#app.count(reply.stats);
      this.play(reply.lookup);
    } catch (error) {
      this.#fail(error instanceof Error ? error.message : String(error));
    }
  }

  #fail(problem: string): void {
    this.#problem.textContent = problem;
  }

  #showPath(state: State): void {
    const { lookup, step } = state;
    this.#player.hidden = this.#steps.hidden = lookup === null;
    if (!lookup) {
      fill(this.#asked, h("p", { class: "hint" }, "There is no such key to look up."));
      fill(this.#end);
      return;
    }
    const total = this.#app.stepCount;
    fill(
      this.#asked,
      h("span", { class: `kind ${lookup.kind.replace(" ", "-")}` }, lookup.kind),
      " ",
      h("code", { class: "the-key" }, lookup.key.text),
      h("span", { class: "detail" }, ` (${count(lookup.key.byte_count, "byte")})`),
      state.isStale
        ? h("p", { class: "hint" }, "Tables changed since; look it up again to see its way now.")
        : null,
    );
    // Who does not see the list hears what the step brought.
    const brought = step > 0 ? `: ${inAWord(lookup, step - 1)}` : "";
    fill(this.#at, `step ${step} of ${total}`, h("span", { class: "visually-hidden" }, brought));
    const memtables = lookup.memtables.map((memtable, at) => memtableStep(memtable, at, step));
    const first = memtables.length;
    if (state.isLecture && total > MANY_STEPS)
      fill(this.#steps, ...memtables.slice(0, step), ...grouped(lookup.runs, step - first));
    else
      fill(
        this.#steps,
        ...memtables,
        ...lookup.runs.map((run, at) => runStep(run, first + at, step)),
      );
    this.#scrollToCurrent();
    const shown = lookup.runs.slice(0, Math.max(0, step - first));
    const current = shown.findLast((run) => wasAsked(run.filter));
    fill(
      this.#end,
      step >= total ? outcome(lookup) : null,
      current ? this.#bits(current, state) : null,
    );
  }

  /** Keeps the step at hand in sight where the list scrolls; the page stays where it is. */
  #scrollToCurrent(): void {
    const list = this.#steps;
    const shown = list.querySelector<HTMLElement>(".current");
    if (!shown || list.scrollHeight <= list.clientHeight) return;
    list.scrollTop = shown.offsetTop - (list.clientHeight - shown.offsetHeight) / 2;
  }

  /** The bits that the step at hand asked for. */
  #bits(step: RunStep, state: State): HTMLElement | null {
    if (step.table === null || !wasAsked(step.filter)) return null;
    const filter = state.model.filterOf(step.table, step.spanning_block ?? 0);
    const isOfBits = step.filter.probes.length > 0;
    return h(
      "div",
      { class: "bits" },
      filter && isOfBits ? raster(filter, step.filter) : null,
      h("p", {}, `Level ${step.level}, run ${step.run}. `, answerInWords(step.filter)),
    );
  }
}

function stateOf(at: number, step: number): string {
  return at < step - 1 ? "past" : at === step - 1 ? "current" : "future";
}

function inAWord(lookup: Lookup, at: number): string {
  const memtable = lookup.memtables[at];
  if (memtable)
    return `memtable, ${memtable.outcome === "absent" ? "not there" : memtable.outcome}`;
  const run = item(lookup.runs, at - lookup.memtables.length);
  return `level ${run.level}, run ${run.run}, ${inShort(run)}`;
}

function memtableStep(step: MemtableStep, at: number, shown: number): HTMLElement {
  const name = step.role === "active" ? "memtable" : "memtable to be flushed";
  const text = {
    found: "found, in memory",
    expired: "expired, known in memory",
    deleted: "deleted, known in memory",
    absent: "not there",
    unknown: "this file does not hold them",
  };
  return h(
    "li",
    { class: stateOf(at, shown), "aria-current": at === shown - 1 ? "step" : null },
    h("b", {}, name),
    ` (${count(step.entry_count, "key")}): ${at < shown ? text[step.outcome] : "…"}`,
  );
}

/** The first `shown` runs; consecutive ones with the same mark are one line. */
function grouped(runs: RunStep[], shown: number): HTMLElement[] {
  const groups: RunStep[][] = [];
  runs.slice(0, Math.max(0, shown)).forEach((run) => {
    const last = groups.at(-1);
    if (last?.[0] && markOf(last[0]) === markOf(run)) last.push(run);
    else groups.push([run]);
  });
  const lines = groups.map((group, at) => {
    const run = item(group, 0);
    if (group.length === 1) return runStep(run, at, groups.length);
    const current = at === groups.length - 1;
    return h(
      "li",
      { class: current ? "current" : "past", "aria-current": current ? "step" : null },
      signed(markOf(run)),
      h("b", {}, count(group.length, "run")),
      `: ${inShort(asOne(run, group))}`,
    );
  });
  const left = runs.length - Math.max(0, shown);
  if (left > 0) lines.push(h("li", { class: "future" }, `${count(left, "run")}: …`));
  return lines;
}

/** Several runs with the same mark as one. */
function asOne(run: RunStep, group: RunStep[]): RunStep {
  return {
    ...run,
    spanning_bytes: sum(group, (one) => one.spanning_bytes),
    blocks: group.flatMap((one) => one.blocks),
  };
}

function runStep(step: RunStep, at: number, shown: number): HTMLElement {
  const line = h("li", {
    class: stateOf(at, shown),
    "aria-current": at === shown - 1 ? "step" : null,
  });
  const place = h("b", {}, `level ${step.level}, run ${step.run}`);
  if (at >= shown) {
    line.append(place, ": …");
    return line;
  }
  let where = step.table === null ? "" : ` · table ${step.table}`;
  if (step.spanning_block !== null) where += ` · block ${step.spanning_block}`;
  line.append(signed(markOf(step)), place, h("span", { class: "where" }, where));
  line.append(h("span", { class: "short" }, `: ${inShort(step)}`));
  line.append(h("span", { class: "part" }, inWords(step).join(" ")));
  return line;
}

function outcome(lookup: Lookup): HTMLElement {
  const text = {
    found: `Found: a value of ${count(lookup.value_bytes, "byte")}.`,
    expired: "The entry has expired.",
    deleted: "The key was deleted.",
    absent: "No entry: the key is absent.",
    unknown: "The store was not asked: this file holds filters, not keys.",
  }[lookup.outcome];
  const filters = sum(lookup.runs, (run) => run.filter?.read_bytes ?? 0);
  return h(
    "p",
    { class: "outcome" },
    h("b", {}, text),
    ` Blocks read: ${lookup.blocks_read} (${bytes(lookup.read_bytes - filters)})` +
      (filters > 0 ? `, and ${bytes(filters)} of filters; ` : "; ") +
      `without filters ${lookup.reads_without_filters}.`,
    lookup.value_text === null ? null : h("code", { class: "value" }, lookup.value_text),
  );
}
