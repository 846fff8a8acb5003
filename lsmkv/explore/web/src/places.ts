// Where cells and labels lie on the map, the cells in arrays that are quick to search and to paint from.

import { item, lowest } from "./items";
import type { Lane, Model } from "./model";

export const PAD_PX = 4;

/** The cells of one lane: from and to, 0 to 1, ascending; and which of them begin a table. */
export interface Row {
  from: Float64Array;
  to: Float64Array;
  tables: number[];
}

export function rowsOf(model: Model): Row[] {
  return model.lanes.map(({ cells }) => {
    const from = new Float64Array(cells.length);
    const to = new Float64Array(cells.length);
    const tables: number[] = [];
    cells.forEach((cell, at) => {
      from[at] = cell.start;
      to[at] = cell.end;
      if (cell.at === 0) tables.push(at);
    });
    return { from, to, tables };
  });
}

/** The first cell that ends at `place` or after it; their number if none does. */
export function firstFrom(row: Row, place: number): number {
  return lowest(row.to.length, (at) => item(row.to, at) >= place);
}

/** The nearest cell to `place`, at most `most` away; -1 if there is none. */
export function nearestTo(row: Row, place: number, most: number): number {
  const after = firstFrom(row, place);
  let best = -1;
  let distance = most;
  for (const at of [after, after - 1]) {
    if (at < 0 || at >= row.to.length) continue;
    const away = Math.max(item(row.from, at) - place, place - item(row.to, at), 0);
    if (away <= distance && (best < 0 || away < distance)) [best, distance] = [at, away];
  }
  return best;
}

/** The measures of lanes, in pixels. */
interface Lanes {
  laneHeight: number;
  gap: number;
}

export function yOf({ laneHeight, gap }: Lanes, lane: number): number {
  return lane * (laneHeight + gap) + PAD_PX;
}

/** The names of levels, and of runs where there is room. */
export function labelsOf(
  sheet: Lanes & { em: number; labels: number },
  lanes: Lane[],
): { text: string; x: number; y: number }[] {
  const { em, labels, laneHeight, gap } = sheet;
  const isNarrow = labels < 6 * em;
  return lanes.flatMap((lane, at) => {
    const y = yOf(sheet, at) + laneHeight / 2;
    const run = { text: `run ${lane.run.number}`, x: 1.5 * em, y };
    const isNamed = !isNarrow && laneHeight >= em;
    if (lane.level === lanes[at - 1]?.level) return isNamed ? [run] : [];
    const text = isNarrow ? `L${lane.level}` : `level ${lane.level}`;
    if (!isNamed || laneHeight + gap < 1.7 * em) return [{ text, x: 0, y }];
    return [
      { text, x: 0, y: y - 0.6 * em },
      { ...run, y: y + 0.6 * em },
    ];
  });
}
