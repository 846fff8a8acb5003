// The counters and the memory of the handle that runs this page's lookups.

import type { App, State } from "./app";
import { facts, fill, h } from "./dom";
import { bytes, integer, significant } from "./format";

export class CountersView {
  readonly element = h("details", { class: "counters card" });
  #list = h("div");

  constructor(app: App) {
    fill(
      this.element,
      h("summary", {}, "Counters of this page’s lookups"),
      h(
        "p",
        { class: "hint" },
        "As DB.stats() and DB.memory_usage() count; those that are 0 are left out.",
      ),
      this.#list,
    );
    app.watch((state, before) => {
      if (state.pulse !== before.pulse || state.model !== before.model || state === before)
        this.#show(state);
    });
  }

  #show(state: State): void {
    const { stats, memory } = state.model.page;
    const counted = Object.entries(stats).filter(([, value]) => value !== 0);
    const held = Object.entries(memory).filter(([, value]) => value !== 0);
    fill(
      this.#list,
      facts(counted.map(([name, value]) => [name, integer(value)])),
      h("h3", {}, "Memory"),
      facts(
        held.map(([name, value]) => [
          name,
          name.endsWith("_bytes") ? bytes(value) : significant(value, 6),
        ]),
      ),
    );
  }
}
