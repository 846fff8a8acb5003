// What all views share: the data, what is selected, and which lookup is shown up to which step.

import type { Lookup, Page } from "./contract";
import { type Cell, Model, moved, NO_SCORE, plus, type Score } from "./model";
import type { Scale } from "./places";
import type { Server } from "./server";
import { onColours } from "./theme";

export type Colouring = "rate" | "keys" | "size" | "age" | "reads" | "cached";

/** Nothing in it grows: however long a live page is open, it keeps one map and one lookup. */
export interface State {
  model: Model;
  selected: Cell | null;
  lookup: Lookup | null;
  step: number; // steps of the lookup that are shown; all of them at its end
  isStale: boolean; // whether tables changed after the lookup
  score: Score;
  colouring: Colouring;
  scale: Scale;
  pulse: number; // goes up when counters or memtables of a live store changed
  colours: number; // goes up when light turned dark, or dark light
  isLecture: boolean;
}

export class App {
  readonly server: Server | null;
  #state: State;
  #listeners: ((state: State, before: State) => void)[] = [];

  constructor(page: Page, server: Server | null) {
    this.server = server;
    this.#state = {
      model: new Model(page),
      selected: null,
      lookup: null,
      step: 0,
      isStale: false,
      score: NO_SCORE,
      colouring: "rate",
      scale: "keys",
      pulse: 0,
      colours: 0,
      isLecture: false,
    };
    onColours(() => this.set({ colours: this.#state.colours + 1 }));
  }

  get state(): State {
    return this.#state;
  }

  /** Calls `listener` after each change, and once now. */
  watch(listener: (state: State, before: State) => void): void {
    this.#listeners.push(listener);
    listener(this.#state, this.#state);
  }

  set(change: Partial<State>): void {
    const before = this.#state;
    this.#state = { ...before, ...change };
    for (const listener of this.#listeners) listener(this.#state, before);
  }

  /** Takes over what a live store just counted. */
  count(stats: Record<string, number>, memtableKeyCounts?: number[]): void {
    const { page } = this.#state.model;
    page.stats = stats;
    if (memtableKeyCounts) page.map.memtable_key_counts = memtableKeyCounts;
    this.set({ pulse: this.#state.pulse + 1 });
  }

  /** Takes over a live store's fresh map; what is on show stays where its tables are still there. */
  follow(page: Page): void {
    const { model, selected, lookup, step } = this.#state;
    const fresh = new Model(page);
    for (const device of page.devices) {
      const chosen = model.page.devices.find((one) => one.name === device.name);
      if (chosen) device.read_ms = chosen.read_ms;
    }
    const kept = lookup && fresh.holds(lookup) ? lookup : null;
    if (kept) fresh.addFilters(model.filtersAsked(kept));
    this.set({
      model: fresh,
      selected: (selected && fresh.cellOf(selected.table.number, selected.firstBlock)) ?? null,
      lookup: kept && { ...kept, position: moved(model, fresh)(kept.position) },
      step: kept ? step : 0,
      isStale: kept !== null,
    });
  }

  /** Shows a lookup from its first step on, and counts it. */
  show(lookup: Lookup, step = 0): void {
    this.set({ lookup, step, isStale: false, score: plus(this.#state.score, lookup) });
  }

  /** All steps of the lookup on show: memtables, then runs. */
  get stepCount(): number {
    const lookup = this.#state.lookup;
    return lookup ? lookup.memtables.length + lookup.runs.length : 0;
  }
}
