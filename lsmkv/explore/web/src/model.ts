// The page's data, indexed for the views.

import type { Cells, Filter, Lookup, LookupReply, Page, Run, RunStep, Table } from "./contract";

export const VERSION = 1;

/** A run on the map, in the order of search: newest data first. */
export interface Lane {
  level: number;
  run: Run;
  cells: Cell[];
}

/** One cell of the map: a block, or several consecutive ones. */
export interface Cell {
  lane: number;
  table: Table;
  at: number; // its item in the table's columns
  firstBlock: number;
  blockCount: number;
  start: number; // on the axis of keys, 0 to 1
  end: number;
  offset: number; // bytes of its run before it
  size: number;
}

/** What became of one run in a lookup. */
export type Mark = "out of range" | "gap" | "no" | "read" | "cached" | "found" | "false positive";

export class Model {
  readonly page: Page;
  lanes: Lane[] = [];
  #filters = new Map<string, Filter>();

  constructor(page: Page) {
    this.page = page;
    this.addFilters(page.filters);
    for (const level of page.map.levels)
      for (const run of level.runs) {
        const lane = this.lanes.length;
        let offset = 0;
        const cells: Cell[] = [];
        for (const table of run.tables) {
          for (let at = 0; at < table.cells.size_bytes.length; at++) {
            const cell = cellAt(table, at, lane, offset);
            offset += cell.size;
            cells.push(cell);
          }
        }
        this.lanes.push({ level: level.number, run, cells });
      }
  }

  addFilters(filters: Filter[]): void {
    for (const filter of filters) this.#filters.set(filterKey(filter.table, filter.block), filter);
  }

  /** Takes over what a lookup on a live store brought: bits of filters, and reads of blocks. */
  take(reply: LookupReply): void {
    this.addFilters(reply.filters);
    for (const step of reply.lookup.runs)
      for (const block of step.blocks) {
        const cell = step.table === null ? undefined : this.cellOf(step.table, block.number);
        if (!cell || block.was_cached) continue;
        const { reads } = cell.table.cells;
        reads[cell.at] = item(reads, cell.at) + 1;
      }
  }

  /** The bits of a block's filter, or of its table's; undefined if the page does not hold them. */
  filterOf(table: number, block: number): Filter | undefined {
    return this.#filters.get(filterKey(table, block)) ?? this.#filters.get(filterKey(table, null));
  }

  /** The cell of a table that holds a block; undefined if the map does not show it. */
  cellOf(table: number, block: number): Cell | undefined {
    for (const lane of this.lanes)
      for (const cell of lane.cells)
        if (
          cell.table.number === table &&
          block >= cell.firstBlock &&
          block < cell.firstBlock + cell.blockCount
        )
          return cell;
    return undefined;
  }

  /** The lane of a lookup's step. */
  laneOf(step: RunStep): number {
    return this.lanes.findIndex(
      (lane) => lane.level === step.level && lane.run.number === step.run,
    );
  }

  /** Bytes of the largest run. */
  get widestRun(): number {
    return Math.max(1, ...this.lanes.map((lane) => lane.cells.reduce((sum, c) => sum + c.size, 0)));
  }

  lookupsOf(kind: Lookup["kind"]): Lookup[] {
    return this.page.lookups.filter((lookup) => lookup.kind === kind);
  }
}

function filterKey(table: number, block: number | null): string {
  return `${table}/${block ?? "all"}`;
}

function cellAt(table: Table, at: number, lane: number, offset: number): Cell {
  const cells: Cells = table.cells;
  const firstBlock = item(cells.first_block, at);
  const next =
    at + 1 < cells.first_block.length ? item(cells.first_block, at + 1) : table.block_count;
  return {
    lane,
    table,
    at,
    firstBlock,
    blockCount: next - firstBlock,
    start: item(cells.start, at),
    end: item(cells.end, at),
    offset,
    size: item(cells.size_bytes, at),
  };
}

/** An item that must be there. */
export function item<T>(items: readonly T[], at: number): T {
  const found = items[at];
  if (found === undefined) throw new RangeError(`no item ${at} of ${items.length}`);
  return found;
}

/** What became of a run in a lookup. */
export function markOf(step: RunStep): Mark {
  if (step.outcome === "no table") return "out of range";
  if (step.outcome === "filtered") return "no";
  if (step.outcome === "gap") return "gap";
  if (step.outcome === "found" || step.outcome === "deleted") return "found";
  if (step.is_false_positive) return "false positive";
  return step.blocks.some((block) => !block.was_cached) ? "read" : "cached";
}

/** The bits of a filter as an array of 0 and 1. */
export function bitsOf(filter: Filter): Uint8Array {
  const packed = Uint8Array.from(atob(filter.bits), (letter) => letter.charCodeAt(0));
  const bits = new Uint8Array(filter.shown_bits);
  for (let i = 0; i < bits.length; i++) bits[i] = ((packed[i >> 3] ?? 0) >> (i & 7)) & 1;
  return bits;
}

/** The lookups of the page added up. */
export interface Score {
  lookups: number;
  without: number;
  done: number;
  withoutBytes: number;
  doneBytes: number;
}

export const NO_SCORE: Score = { lookups: 0, without: 0, done: 0, withoutBytes: 0, doneBytes: 0 };

export function plus(score: Score, lookup: Lookup): Score {
  return {
    lookups: score.lookups + 1,
    without: score.without + lookup.reads_without_filters,
    done: score.done + lookup.blocks_read,
    withoutBytes: score.withoutBytes + lookup.read_bytes_without_filters,
    doneBytes: score.doneBytes + lookup.read_bytes,
  };
}
