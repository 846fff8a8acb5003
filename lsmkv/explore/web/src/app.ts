// What all views share: the data, what is selected, and which lookup is shown up to which step.

import type { Lookup, Page, Program } from "./contract";
import { type Cell, Model, moved } from "./model";
import type { Server } from "./server";
import { onColours } from "./theme";
import { variantOf } from "./variants";

export type Colouring = "level" | "rate" | "wasted";

/** Nothing in it grows: however long a live page is open, it keeps one map and one lookup. */
export interface State {
  model: Model;
  selected: Cell | null;
  asked: Lookup | null; // as it ran
  rate: number | null; // an item of the page's rates; null for the store's own filters
  lookup: Lookup | null; // with the filters chosen
  step: number; // steps of the lookup that are shown; all of them at its end
  isStale: boolean; // whether tables changed after the lookup
  colouring: Colouring;
  pulse: number; // goes up when counters or memtables of a live store changed
  colours: number; // goes up when light turned dark, or dark light
  isLecture: boolean;
  program: Program | null; // what the program that has a live store open publishes
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
      asked: null,
      lookup: null,
      step: 0,
      isStale: false,
      rate: null,
      colouring: "level",
      pulse: 0,
      colours: 0,
      isLecture: false,
      program: null,
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

  set(change: Partial<Omit<State, "lookup">>): void {
    const before = this.#state;
    const state = { ...before, ...change };
    const { asked, rate } = state;
    if (asked !== before.asked || rate !== before.rate)
      state.lookup = asked && variantOf(asked, rate);
    this.#state = state;
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
    const { model, selected, asked, step } = this.#state;
    const fresh = new Model(page);
    for (const device of page.devices) {
      const chosen = model.page.devices.find((one) => one.name === device.name);
      if (chosen) device.read_ms = chosen.read_ms;
    }
    const kept = asked && fresh.holds(asked) ? asked : null;
    if (kept) fresh.addFilters(model.filtersAsked(kept));
    const first = kept ? null : firstOf(fresh);
    this.set({
      model: fresh,
      selected: (selected && fresh.cellOf(selected.table.number, selected.firstBlock)) ?? null,
      asked: kept ? { ...kept, position: moved(model, fresh)(kept.position) } : first,
      step: kept ? step : first ? stepsOf(first) : 0,
      isStale: kept !== null,
    });
  }

  /** Shows the lookup that a page begins with, if there is one. */
  begin(): void {
    const first = firstOf(this.#state.model);
    if (first) this.show(first);
  }

  /** Shows a lookup up to a step; all of it without one. */
  show(lookup: Lookup, step = stepsOf(lookup)): void {
    this.set({ asked: lookup, step, isStale: false });
  }

  /** All steps of the lookup on show: memtables, then runs. */
  get stepCount(): number {
    const lookup = this.#state.lookup;
    return lookup ? stepsOf(lookup) : 0;
  }
}

function stepsOf(lookup: Lookup): number {
  return lookup.memtables.length + lookup.runs.length;
}

/** An absent key where there are tables, whose filters spare reads; otherwise a present one. */
function firstOf(model: Model): Lookup | null {
  const kinds =
    model.page.map.table_count > 0 ? (["absent", "present"] as const) : (["present"] as const);
  return kinds.flatMap((kind) => model.examples(kind))[0] ?? null;
}
