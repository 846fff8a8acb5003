// The counters of the program that has a live store open, as it publishes them.

import type { App } from "./app";
import type { Program } from "./contract";
import { fill, h } from "./dom";
import { count, integer, saved, significant } from "./format";

const SHOWN: readonly [string, string][] = [
  ["gets", "lookups"],
  ["block_reads", "blocks read"],
  ["filter_negatives", "searches of a block that filters saved"],
  ["filter_false_positives", "searches wasted on a filter’s maybe"],
  ["entry_cache_hits", "lookups answered by its entry cache"],
  ["block_cache_hits", "blocks found in its block cache"],
  ["writes", "writes"],
];

export class ProgramView {
  readonly element = h("section", { class: "program card", hidden: true });

  constructor(app: App) {
    app.watch((state, before) => {
      if (state.program === before.program) return;
      this.element.hidden = state.program === null;
      if (state.program) this.#show(state.program);
    });
  }

  #show(program: Program): void {
    const title = h("h2", {}, "The program that has this store open");
    if (program.problem !== null) {
      fill(this.element, title, h("p", { class: "failure" }, program.problem));
      return;
    }
    fill(
      this.element,
      title,
      h("p", { class: program.silent_s === null ? "hint" : "failure" }, state(program)),
      h("p", { "data-program": "saved" }, inShort(program.stats)),
      totals(program),
      ...byLevel(program),
      ...falsePositives(program),
    );
  }
}

function state({ pid, silent_s }: Program): string {
  if (silent_s === null) return `Process ${pid}, since it opened the store.`;
  return `Process ${pid} has published nothing for ${count(silent_s, "second")}: it has ended, or hangs.`;
}

/** How many searches of a block filters saved, of all. */
function inShort(stats: Program["stats"]): string {
  const no = stats.filter_negatives ?? 0;
  const rest = ["filter_true_positives", "filter_false_positives", "unfiltered_probes"];
  const all = rest.reduce((sum, name) => sum + (stats[name] ?? 0), no);
  const share = all > 0 ? ` (${saved(no / all)})` : "";
  return `Its filters saved ${integer(no)} of ${count(all, "search", "searches")} of a block${share}.`;
}

function totals({ stats, per_second }: Program): HTMLElement {
  const rows = SHOWN.map(([name, text]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, text),
      h("td", { "data-counter": name }, integer(stats[name] ?? 0)),
      h("td", {}, name in per_second ? significant(per_second[name] ?? 0, 3) : "–"),
    ),
  );
  return table(["", "in all", "per second"], rows);
}

/** What the filters of each level answered to absent keys. */
function byLevel({ levels }: Program): HTMLElement[] {
  if (!levels.some((one) => one.filter_negatives + one.false_positives > 0)) return [];
  const rows = levels.map((one) =>
    h(
      "tr",
      { "data-level": one.level },
      h("th", { scope: "row" }, `level ${one.level}, ${count(one.tables, "table")}`),
      h("td", {}, integer(one.filter_negatives)),
      h("td", {}, integer(one.false_positives)),
    ),
  );
  const head = "Searches for absent keys, by level: of the tables that are there now";
  return [h("h3", {}, head), table(["", "saved", "wasted"], rows)];
}

function table(columns: readonly string[], rows: HTMLElement[]): HTMLElement {
  const head = columns.map((text) => h("th", { scope: "col" }, text));
  return h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows));
}

function falsePositives({ tables }: Program): HTMLElement[] {
  if (tables.length === 0) return [];
  const items = tables.map((one) =>
    h(
      "li",
      {},
      `table ${one.table} of level ${one.level}: ${integer(one.false_positives)}, ` +
        `and ${integer(one.filter_negatives)} denied`,
    ),
  );
  return [h("h3", {}, "False positives by table"), h("ul", {}, ...items)];
}
