// The tables of a store at each step of its history.

import type { HistoryStep, HistoryTable } from "./contract";

/** The tables that are live after a step. */
export function liveAfter(steps: HistoryStep[], at: number): HistoryTable[] {
  const live = new Map<number, HistoryTable>();
  for (const step of steps.slice(0, at + 1)) {
    for (const number of step.removed) live.delete(number);
    for (const table of step.added) live.set(table.number, table);
  }
  return [...live.values()];
}

/** The widest run in bytes and the most runs at any step: one scale for the whole history. */
export function extentOf(steps: HistoryStep[]): { widest: number; runs: number } {
  const live = new Map<number, HistoryTable>();
  const sizes = new Map<string, number>();
  let [widest, runs] = [1, 1];
  const add = (table: HistoryTable | undefined, sign: number): void => {
    if (!table) return;
    const name = `${table.level}/${table.run}`;
    const size = (sizes.get(name) ?? 0) + sign * table.size_bytes;
    if (size > 0) sizes.set(name, size);
    else sizes.delete(name);
  };
  for (const step of steps) {
    for (const number of step.removed) {
      add(live.get(number), -1);
      live.delete(number);
    }
    for (const table of step.added) {
      add(table, 1);
      live.set(table.number, table);
    }
    widest = Math.max(widest, ...sizes.values());
    runs = Math.max(runs, sizes.size);
  }
  return { widest, runs };
}

/** About four ticks from 0 to `most` bytes, at powers of two and their halves. */
export function byteTicks(most: number): number[] {
  const step = 2 ** Math.ceil(Math.log2(Math.max(1, most) / 4));
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
}
