// The running score: reads without filters, reads done, reads saved, and what they would take.

import type { App, State } from "./app";
import type { Device, Lookup } from "./contract";
import { button, fill, h } from "./dom";
import { count, duration, integer, saved } from "./format";
import { item } from "./items";
import { NO_SCORE, type Score } from "./model";

interface Row {
  element: HTMLElement;
  show: (score: Score) => void;
}

export class ScoreView {
  readonly element: HTMLElement;
  #title = h("h3");
  #reads = ["without", "done", "saved"].map((name) => h("td", { "data-score": name }));
  #devices = h("tbody");
  #rows: Row[] = [];
  #score = NO_SCORE;

  constructor(app: App) {
    const columns = ["without filters", "done", "saved"];
    this.element = h(
      "div",
      { class: "score" },
      this.#title,
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h("tr", {}, h("td", {}), ...columns.map((text) => h("th", { scope: "col" }, text))),
          h("tr", { class: "reads" }, h("th", { scope: "row" }, "block reads"), ...this.#reads),
        ),
        this.#devices,
      ),
      h(
        "p",
        { class: "hint" },
        "Times are reads by an assumed time each; change it. Without filters, a lookup reads each block " +
          "that spans the key and is not cached.",
      ),
      button("Start the score anew", () => app.set({ score: NO_SCORE, lookup: null, step: 0 })),
    );
    app.watch((state, before) => {
      if (state.model !== before.model || state === before) this.#list(state.model.page.devices);
      if (state.lookup !== before.lookup || state.step !== before.step || state === before)
        this.#show(shownScore(state));
    });
  }

  /** The rows of devices; those of the same devices stay, with the focus in them. */
  #list(devices: Device[]): void {
    this.#rows = devices.map((device, at) =>
      deviceRow(device, () => item(this.#rows, at).show(this.#score)),
    );
    const held = this.element.contains(document.activeElement) ? document.activeElement : null;
    const name = held?.getAttribute("aria-label");
    fill(this.#devices, ...this.#rows.map((row) => row.element));
    if (name) this.#devices.querySelector<HTMLElement>(`[aria-label="${name}"]`)?.focus();
    this.#show(this.#score);
  }

  #show(score: Score): void {
    this.#score = score;
    const spared = score.without - score.done;
    this.#title.textContent = `Score of ${count(score.lookups, "lookup")}`;
    const share = score.without > 0 ? ` (${saved(spared / score.without)})` : "";
    [integer(score.without), integer(score.done), integer(spared) + share].forEach((text, at) => {
      item(this.#reads, at).textContent = text;
    });
    for (const row of this.#rows) row.show(score);
  }
}

function deviceRow(device: Device, changed: () => void): Row {
  const input = h("input", {
    type: "number",
    min: "0",
    step: "any",
    value: device.read_ms,
    "aria-label": `milliseconds of a read from ${withArticle(device.name)}`,
    title: device.assumption,
  });
  const cells = [h("td"), h("td"), h("td")];
  input.addEventListener("input", () => {
    device.read_ms = Math.max(0, Number(input.value) || 0);
    changed();
  });
  const name = h(
    "th",
    { scope: "row" },
    device.name,
    " at ",
    input,
    " ms",
    h("small", {}, device.assumption),
  );
  return {
    element: h("tr", {}, name, ...cells),
    show: ({ without, done }) => {
      [without, done, without - done].forEach((reads, at) => {
        item(cells, at).textContent = duration(reads * device.read_ms);
      });
    },
  };
}

/** The score; a lookup that is still being shown counts up to its present step. */
function shownScore({ score, lookup, step }: State): Score {
  if (!lookup || step >= lookup.memtables.length + lookup.runs.length) return score;
  const part = shownPart(lookup, step);
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

function withArticle(name: string): string {
  return /^(SSD|[aeiou])/.test(name) ? `an ${name}` : `a ${name}`;
}
