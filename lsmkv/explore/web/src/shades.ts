// The colours of the map's cells.  They are computed when their meaning or the data changes, and not
// for each picture.

import { interpolateRgbBasis } from "d3-interpolate";
import type { Colouring } from "./app";
import { bytes, date, integer, percent } from "./format";
import { item } from "./items";
import type { Cell, Model } from "./model";
import { themed } from "./theme";

const SHADES = 256;
const EVEN = 0.35; // where on the ramp a store of one value is

export const COLOURINGS: Record<
  Colouring,
  { text: string; value: (cell: Cell) => number | null; shown: (value: number) => string }
> = {
  rate: {
    text: "false-positive rate",
    value: (cell) => item(cell.table.cells.rate, cell.at) ?? cell.table.expected_rate,
    shown: percent,
  },
  keys: {
    text: "entries per block",
    value: (cell) => item(cell.table.cells.entry_count, cell.at) / cell.blockCount,
    shown: integer,
  },
  size: {
    text: "bytes per block",
    value: (cell) => cell.size / cell.blockCount,
    shown: bytes,
  },
  age: {
    text: "when it was written",
    value: (cell) => cell.table.written_at_s,
    shown: date,
  },
  reads: {
    text: "reads by this page's lookups",
    value: (cell) => item(cell.table.cells.reads, cell.at),
    shown: integer,
  },
  cached: {
    text: "share in the block cache",
    value: (cell) => item(cell.table.cells.cached, cell.at) / cell.blockCount,
    shown: percent,
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

export function shadingOf(model: Model, colouring: Colouring): Shading {
  const { value } = COLOURINGS[colouring];
  const isLog = colouring === "rate";
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
  const place = isEven({ low, high }, colouring) ? () => EVEN : placing(low, high, isLog);
  return {
    lanes: values.map((own) =>
      Uint16Array.from(own, (v) => (v === null ? 0 : 1 + Math.round(place(v) * (SHADES - 1)))),
    ),
    palette: palette(),
    low,
    high,
  };
}

/** Where a value lies between the lowest and the highest, 0 to 1. */
function placing(
  low: number | null,
  high: number | null,
  mayBeLog: boolean,
): (v: number) => number {
  if (low === null || high === null) return () => EVEN;
  const [from, to] = [low, high];
  if (mayBeLog && from > 0) {
    const whole = Math.log(to / from);
    return (v) => Math.log(v / from) / whole;
  }
  return (v) => (v - from) / (to - from);
}

function palette(): string[] {
  const ramp = interpolateRgbBasis([themed("--low"), themed("--middle"), themed("--high")]);
  const shades = Array.from({ length: SHADES }, (_, at) => ramp(at / (SHADES - 1)));
  return [themed("--line"), ...shades];
}
