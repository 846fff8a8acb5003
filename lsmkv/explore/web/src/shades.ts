// The colours of the map's cells.  They are computed when their meaning or the data changes, and not
// for each picture.

import { interpolateRgbBasis } from "d3-interpolate";
import type { Colouring } from "./app";
import { integer, percent } from "./format";
import { item } from "./items";
import type { Cell, Model } from "./model";
import { themed } from "./theme";

const SHADES = 256;
const EVEN = 0.12; // where on the ramp a store of one value is
const QUIET = 0.3; // levels take so much of the ramp: what happens on the map must stand out

export const COLOURINGS: Record<
  Colouring,
  { text: string; value: (cell: Cell) => number | null; shown: (value: number) => string }
> = {
  level: {
    text: "level",
    value: (cell) => cell.level,
    shown: integer,
  },
  rate: {
    text: "false-positive rate p",
    value: (cell) => item(cell.table.cells.rate, cell.at) ?? cell.table.expected_rate,
    shown: percent,
  },
  wasted: {
    text: "wasted reads",
    value: (cell) => item(cell.table.cells.wasted, cell.at),
    shown: integer,
  },
};

/** Whether a colour can tell the lowest value from the highest: their texts differ. */
export function isEven(
  { low, high }: Pick<Shading, "low" | "high">,
  colouring: Colouring,
): boolean {
  const { shown } = COLOURINGS[colouring];
  return low !== null && high !== null && shown(low) === shown(high);
}

/** For each lane the shade of each cell: an item of `palette`, whose first is for what is unknown. */
export interface Shading {
  lanes: Uint16Array[];
  palette: string[];
  low: number | null;
  high: number | null;
}

/** The shades of all cells; `rate` is that of filters built anew, which takes the place of each one's own. */
export function shadingOf(model: Model, colouring: Colouring, rate: number | null): Shading {
  const own = COLOURINGS[colouring].value;
  const value = colouring === "rate" && rate !== null ? () => rate : own;
  let low: number | null = null;
  let high: number | null = null;
  const values = model.lanes.map((lane) =>
    lane.cells.map((cell) => {
      const v = value(cell);
      if (v === null) return v;
      if (low === null || v < low) low = v;
      if (high === null || v > high) high = v;
      return v;
    }),
  );
  if (colouring === "rate") [low, high] = aroundAsked(model);
  const place = placing(low, high, colouring);
  return {
    lanes: values.map((all) =>
      Uint16Array.from(all, (v) => (v === null ? 0 : 1 + Math.round(place(v) * (SHADES - 1)))),
    ),
    palette: palette(),
    low,
    high,
  };
}

/** A tenth and ten times of the rate that the store asks for: filters of one p look alike. */
function aroundAsked(model: Model): [number, number] {
  const asked = model.lanes[0]?.run.tables[0]?.requested_rate ?? 0.01;
  return [asked / 10, Math.min(1, asked * 10)];
}

/** Where a value lies on the ramp, 0 to 1. */
function placing(
  low: number | null,
  high: number | null,
  colouring: Colouring,
): (v: number) => number {
  if (low === null || high === null || isEven({ low, high }, colouring)) return () => EVEN;
  const [from, to] = [low, high];
  if (colouring === "level") return (v) => (QUIET * (v - from)) / (to - from);
  if (colouring !== "rate") return (v) => (v - from) / (to - from);
  return (v) => Math.max(0, Math.min(1, Math.log(Math.max(v, 1e-12) / from) / Math.log(to / from)));
}

function palette(): string[] {
  const ramp = interpolateRgbBasis([themed("--low"), themed("--middle"), themed("--high")]);
  const shades = Array.from({ length: SHADES }, (_, at) => ramp(at / (SHADES - 1)));
  return [themed("--line"), ...shades];
}
