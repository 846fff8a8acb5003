// What all views share: the data, what is selected, and which lookup is shown up to which step.

import type { Lookup, Page } from "./contract";
import { type Cell, Model, NO_SCORE, plus, type Score } from "./model";
import type { Server } from "./server";

export type Colouring = "rate" | "keys" | "size" | "age" | "reads" | "cached";
export type Scale = "keys" | "bytes";

export interface State {
  model: Model;
  selected: Cell | null;
  lookup: Lookup | null;
  step: number; // steps of the lookup that are shown; all of them at its end
  score: Score;
  colouring: Colouring;
  scale: Scale;
  pulse: number; // goes up when counters or memtables of a live store changed
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
      score: NO_SCORE,
      colouring: "rate",
      scale: "keys",
      pulse: 0,
    };
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

  /** Shows a lookup from its first step on, and counts it. */
  show(lookup: Lookup, step = 0): void {
    this.set({ lookup, step, score: plus(this.#state.score, lookup) });
  }

  /** All steps of the lookup on show: memtables, then runs. */
  get stepCount(): number {
    const lookup = this.#state.lookup;
    return lookup ? lookup.memtables.length + lookup.runs.length : 0;
  }
}
