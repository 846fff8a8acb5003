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

/** About four ticks from 0 to `most` bytes, at powers of two and their halves. */
export function byteTicks(most: number): number[] {
  const step = 2 ** Math.ceil(Math.log2(Math.max(1, most) / 4));
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
}
