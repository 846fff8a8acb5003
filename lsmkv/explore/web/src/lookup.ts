// Lookups, step by step: choosing a key, the path, and the running score.

import type { App, State } from "./app";
import { MARKS } from "./colour";
import type { FilterStep, Lookup, LookupRequest, MemtableStep, RunStep } from "./contract";
import { button, fill, h } from "./dom";
import { bytes, count, duration, integer, percent, saved } from "./format";
import { eightBytes } from "./keys";
import { item, markOf, NO_SCORE } from "./model";
import { probesInWords, raster } from "./raster";

type Pick = "present" | "absent" | "false positive";
type Form = NonNullable<LookupRequest["form"]>;

const PICKS: [Pick, string][] = [
  ["present", "A present key"],
  ["absent", "An absent key"],
  ["false positive", "A false positive"],
];
const STEP_MS = 900;

export class LookupView {
  readonly element: HTMLElement;
  #app: App;
  #key = h("input", { id: "key", autocomplete: "off", spellcheck: "false", list: "recorded" });
  #form = h("select", { id: "key-form", "aria-label": "How the key is written" });
  #problem = h("p", { class: "failure", role: "alert" });
  #recorded = h("datalist", { id: "recorded" });
  #path = h("div", { class: "path" });
  #score = h("div", { class: "score" });
  #next: Record<Pick, number> = { present: 0, absent: 0, "false positive": 0 };
  #timer = 0;

  constructor(app: App) {
    this.#app = app;
    const form = h(
      "form",
      { class: "key-form" },
      h("label", { for: "key" }, "Key"),
      this.#key,
      this.#form,
      h("button", { type: "submit", class: "primary" }, "Look up"),
      this.#recorded,
    );
    for (const [value, text] of [
      ["text", "text"],
      ["hex", "hex"],
      ["number", "number, 8 bytes"],
    ] as const)
      this.#form.append(h("option", { value }, text));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#typed();
    });
    this.element = h(
      "section",
      { class: "lookup card", "aria-label": "Lookup" },
      h("h2", {}, "Lookup"),
      form,
      h(
        "div",
        { class: "picks" },
        "or ",
        ...PICKS.map(([pick, text]) =>
          button(text, () => void this.pick(pick), { "data-pick": pick }),
        ),
      ),
      this.#problem,
      this.#path,
      this.#score,
    );
    app.watch((state, before) => {
      if (state.model !== before.model || state === before) this.#list(state);
      if (state.lookup !== before.lookup || state.step !== before.step || state === before) {
        this.#showPath(state);
        this.#showScore(state);
      }
    });
  }

  /** Shows the next key of a kind, and plays its steps. */
  async pick(pick: Pick): Promise<void> {
    const { server } = this.#app;
    if (server) return this.#ask({ key: "", form: "text", pick });
    const recorded = this.#app.state.model.lookupsOf(pick);
    if (recorded.length === 0)
      return this.#fail(
        `No ${pick === "false positive" ? pick : `${pick} key`} was found in this store.`,
      );
    const at = this.#next[pick]++ % recorded.length;
    this.play(item(recorded, at));
  }

  /** Shows a lookup and plays its steps; at once for people who want no motion. */
  play(lookup: Lookup): void {
    this.#problem.textContent = "";
    clearInterval(this.#timer);
    this.#app.show(lookup);
    const steps = lookup.memtables.length + lookup.runs.length;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) this.#app.set({ step: steps });
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
    const key = this.#key.value;
    const form = this.#form.value as Form;
    if (this.#app.server) return this.#ask({ key, form, pick: null });
    const found = this.#app.state.model.page.lookups.find(
      (lookup) =>
        (form === "text" && lookup.key.text === key) ||
        (form === "hex" && lookup.key.hex === key.toLowerCase().replaceAll(" ", "")) ||
        (form === "number" && lookup.key.hex === eightBytes(key)),
    );
    if (found) return this.play(found);
    const known = this.#app.state.model.page.lookups.length;
    this.#fail(
      `This page is a file and holds ${count(known, "recorded lookup")}; this key is not one of them. ` +
        "lsmkv explore STORE --serve looks up any key.",
    );
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

  #list(state: State): void {
    this.#recorded.replaceChildren();
    if (this.#app.server) return;
    for (const lookup of state.model.page.lookups)
      this.#recorded.append(h("option", { value: lookup.key.text }, lookup.kind));
  }

  #showPath(state: State): void {
    const { lookup, step } = state;
    if (!lookup) {
      fill(
        this.#path,
        h("p", { class: "hint" }, "Choose a key: its way through the store follows."),
      );
      return;
    }
    const total = this.#app.stepCount;
    const steps = h("ol", {
      class: "steps",
      tabindex: 0,
      "aria-label": "The way through the store",
    });
    lookup.memtables.forEach((memtable, at) => {
      steps.append(memtableStep(memtable, at, step));
    });
    lookup.runs.forEach((run, at) => {
      steps.append(runStep(run, lookup.memtables.length + at, step));
    });
    const current = lookup.runs[step - lookup.memtables.length - 1];
    fill(
      this.#path,
      h(
        "p",
        { class: "asked" },
        h("span", { class: `kind ${lookup.kind.replace(" ", "-")}` }, lookup.kind),
        " ",
        h("code", { class: "the-key" }, lookup.key.text),
        ` (${count(lookup.key.byte_count, "byte")})`,
      ),
      h(
        "div",
        { class: "player", role: "group", "aria-label": "Steps" },
        button("First", () => this.step(-total), { "aria-label": "First step" }),
        button("Back", () => this.step(-1), { "aria-label": "Step back" }),
        button("Next", () => this.step(1), { "aria-label": "Step forward" }),
        button("Last", () => this.step(total), { "aria-label": "Last step" }),
        h("span", { "aria-live": "polite" }, `step ${step} of ${total}`),
      ),
      steps,
      step >= total ? outcome(lookup) : null,
      current ? this.#bits(current, state) : null,
    );
  }

  /** The bits that the step at hand asked for. */
  #bits(step: RunStep, state: State): HTMLElement | null {
    if (step.table === null || !step.filter || !wasAsked(step.filter)) return null;
    const filter = state.model.filterOf(step.table, step.spanning_block ?? 0);
    return h(
      "div",
      { class: "bits" },
      filter ? raster(filter, step.filter) : null,
      h("p", {}, probesInWords(step.filter)),
    );
  }

  #showScore(state: State): void {
    const { lookup, step } = state;
    // A lookup that is still being shown counts up to its present step.
    const isDone = !lookup || step >= this.#app.stepCount;
    const score = isDone ? state.score : minus(state, shownPart(lookup, step));
    const spared = score.without - score.done;
    const body = h("tbody");
    for (const device of state.model.page.devices) {
      const input = h("input", {
        type: "number",
        min: "0",
        step: "any",
        value: device.read_ms,
        "aria-label": `milliseconds of a read from ${withArticle(device.name)}`,
        title: device.assumption,
      });
      const cells = [h("td"), h("td"), h("td")];
      const show = (): void => {
        device.read_ms = Math.max(0, Number(input.value) || 0);
        [score.without, score.done, spared].forEach((reads, at) => {
          item(cells, at).textContent = duration(reads * device.read_ms);
        });
      };
      input.addEventListener("input", show);
      show();
      body.append(
        h(
          "tr",
          {},
          h(
            "th",
            { scope: "row" },
            device.name,
            " at ",
            input,
            " ms",
            h("small", {}, device.assumption),
          ),
          ...cells,
        ),
      );
    }
    fill(
      this.#score,
      h("h3", {}, `Score of ${count(score.lookups, "lookup")}`),
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("td", {}),
            h("th", { scope: "col" }, "without filters"),
            h("th", { scope: "col" }, "done"),
            h("th", { scope: "col" }, "saved"),
          ),
          h(
            "tr",
            { class: "reads" },
            h("th", { scope: "row" }, "block reads"),
            h("td", { "data-score": "without" }, integer(score.without)),
            h("td", { "data-score": "done" }, integer(score.done)),
            h(
              "td",
              { "data-score": "saved" },
              integer(spared),
              score.without > 0 ? ` (${saved(spared / score.without)})` : "",
            ),
          ),
        ),
        body,
      ),
      h(
        "p",
        { class: "hint" },
        "Times are reads by an assumed time each; change it. Without filters, a lookup reads each block " +
          "that spans the key and is not cached.",
      ),
      button("Start the score anew", () =>
        this.#app.set({ score: NO_SCORE, lookup: null, step: 0 }),
      ),
    );
  }
}

function minus(state: State, part: { without: number; done: number }) {
  const { score, lookup } = state;
  if (!lookup) return score;
  return {
    ...score,
    without: score.without - lookup.reads_without_filters + part.without,
    done: score.done - lookup.blocks_read + part.done,
  };
}

/** The reads of the first steps of a lookup. */
function shownPart(lookup: Lookup, step: number): { without: number; done: number } {
  const runs = lookup.runs.slice(0, Math.max(0, step - lookup.memtables.length));
  return {
    without: runs.filter((run) => run.spanning_block !== null && !run.spanning_was_cached).length,
    done: runs.reduce((sum, run) => sum + run.blocks.filter((b) => !b.was_cached).length, 0),
  };
}

function wasAsked(step: FilterStep): boolean {
  return step.verdict === "no" || step.verdict === "maybe";
}

function stateOf(at: number, step: number): string {
  return at < step - 1 ? "past" : at === step - 1 ? "current" : "future";
}

function memtableStep(step: MemtableStep, at: number, shown: number): HTMLElement {
  const name = step.role === "active" ? "memtable" : "memtable to be flushed";
  const text = {
    found: "found, in memory",
    deleted: "deleted, known in memory",
    absent: "not there",
  };
  return h(
    "li",
    { class: stateOf(at, shown), "aria-current": at === shown - 1 ? "step" : null },
    h("b", {}, name),
    ` (${count(step.entry_count, "key")}): ${at < shown ? text[step.outcome] : "…"}`,
  );
}

function runStep(step: RunStep, at: number, shown: number): HTMLElement {
  const mark = MARKS[markOf(step)];
  const place = h("b", {}, `level ${step.level}, run ${step.run}`);
  const list = h("li", {
    class: stateOf(at, shown),
    "aria-current": at === shown - 1 ? "step" : null,
  });
  if (at >= shown) {
    list.append(place, ": …");
    return list;
  }
  const sign = h("span", { class: "sign", "aria-hidden": "true" }, mark.sign);
  sign.style.setProperty("background", mark.colour);
  list.append(sign, place, step.table === null ? "" : ` · table ${step.table}`);
  if (step.spanning_block !== null) list.append(` · block ${step.spanning_block}`);
  for (const part of inWords(step)) list.append(h("span", { class: "part" }, part));
  return list;
}

/** What happened in one run, in the order in which it did. */
function inWords(step: RunStep): string[] {
  const parts: string[] = [];
  if (step.outcome === "no table") return ["No table of this run spans the key: not read."];
  if (step.outcome === "gap" && !step.filter)
    return ["The key lies in the gap between two blocks: not read."];
  const filter = step.filter;
  if (filter) {
    const whose = filter.scope === "table" ? "The table's filter" : "The block's filter";
    if (filter.verdict === "none") parts.push("There is no filter.");
    else if (filter.verdict === "off") parts.push("Filters are off.");
    else if (filter.verdict === "lost") parts.push(`${whose} is damaged in every copy.`);
    else {
      const rate = filter.expected_rate === null ? "" : ` (p = ${percent(filter.expected_rate)})`;
      const learnt = filter.was_learnt ? ", which it learnt" : "";
      parts.push(`${whose} says ${filter.verdict}${learnt}${rate}.`);
    }
  }
  if (step.outcome === "gap") parts.push("The key lies in the gap between two blocks: not read.");
  if (step.outcome === "filtered") parts.push(`${bytes(step.spanning_bytes)} not read.`);
  for (const block of step.blocks)
    parts.push(
      block.was_cached
        ? `Block ${block.number} searched in the cache.`
        : `Block ${block.number} read: ${bytes(block.length_bytes)}.`,
    );
  if (step.outcome === "found") parts.push("Found.");
  if (step.outcome === "deleted") parts.push("Deleted here.");
  if (step.outcome === "absent")
    parts.push(step.is_false_positive ? "Not there: a false positive." : "Not there.");
  return parts;
}

function outcome(lookup: Lookup): HTMLElement {
  const text = {
    found: `Found: a value of ${count(lookup.value_bytes, "byte")}.`,
    deleted: "The key was deleted.",
    absent: "No entry: the key is absent.",
  }[lookup.outcome];
  return h(
    "p",
    { class: "outcome" },
    h("b", {}, text),
    ` Filters asked: ${lookup.filters_asked}, said no: ${lookup.filter_negatives}, ` +
      `false positives: ${lookup.false_positives}. Blocks read: ${lookup.blocks_read} ` +
      `(${bytes(lookup.read_bytes)}); without filters ${lookup.reads_without_filters}.`,
    lookup.value_text === null ? null : h("code", { class: "value" }, lookup.value_text),
  );
}

function withArticle(name: string): string {
  return /^(SSD|[aeiou])/.test(name) ? `an ${name}` : `a ${name}`;
}
