// The page's data, indexed for the views.

import type {
  Cells,
  Damage,
  Filter,
  Lookup,
  LookupReply,
  Page,
  Run,
  RunStep,
  Table,
} from "./contract";
import { item, lowest } from "./items";

export const VERSION = 9;

/** Filters kept besides those of the page: a live page open for hours asks for many. */
export const MOST_OTHER_FILTERS = 500;

/** A run on the map, in the order of search: newest data first. */
export interface Lane {
  level: number;
  run: Run;
  cells: Cell[];
}

/** One cell of the map: a block, or several consecutive ones. */
export interface Cell {
  lane: number;
  level: number;
  table: Table;
  at: number; // its item in the table's columns
  index: number; // its item in the lane's cells
  firstBlock: number;
  blockCount: number;
  start: number; // on the axis of keys, 0 to 1
  end: number;
  size: number;
}

/** What became of one run in a lookup. */
export type Mark = "out of range" | "no" | "maybe" | "read" | "found" | "false positive";

export class Model {
  readonly page: Page;
  readonly lanes: Lane[] = [];
  #filters = new Map<string, Filter>();
  #others = new Map<string, Filter>(); // the oldest first
  #cells = new Map<number, Cell[]>(); // of each table

  constructor(page: Page) {
    this.page = page;
    for (const filter of page.filters)
      this.#filters.set(filterKey(filter.table, filter.block), filter);
    for (const level of page.map.levels)
      for (const run of level.runs) {
        const lane = this.lanes.length;
        const cells: Cell[] = [];
        for (const table of run.tables) {
          const own: Cell[] = [];
          for (let at = 0; at < table.cells.size_bytes.length; at++) {
            const cell = cellAt(table, at, lane, level.number, cells.length);
            own.push(cell);
            cells.push(cell);
          }
          this.#cells.set(table.number, own);
        }
        this.lanes.push({ level: level.number, run, cells });
      }
  }

  /** Takes filters over; the oldest of too many go. */
  addFilters(filters: Filter[]): void {
    for (const filter of filters) {
      const key = filterKey(filter.table, filter.block);
      if (this.#filters.has(key)) this.#filters.set(key, filter);
      else {
        this.#others.delete(key);
        this.#others.set(key, filter);
      }
    }
    for (const key of this.#others.keys()) {
      if (this.#others.size <= MOST_OTHER_FILTERS) break;
      this.#others.delete(key);
    }
  }

  /** Takes over what a lookup on a live store brought: bits of filters, and reads. */
  take(reply: LookupReply): void {
    this.addFilters(reply.filters);
    for (const step of reply.lookup.runs)
      for (const block of step.blocks) {
        const cell = step.table === null ? undefined : this.cellOf(step.table, block.number);
        if (!cell || step.outcome !== "absent") continue;
        const { wasted } = cell.table.cells;
        wasted[cell.at] = item(wasted, cell.at) + 1;
      }
  }

  /** The bits of a block's filter, or of its table's; undefined if the page does not hold them. */
  filterOf(table: number, block: number): Filter | undefined {
    return this.#filter(filterKey(table, block)) ?? this.#filter(filterKey(table, null));
  }

  #filter(key: string): Filter | undefined {
    return this.#filters.get(key) ?? this.#others.get(key);
  }

  /** The filters that a lookup asked, as far as they are known. */
  filtersAsked(lookup: Lookup): Filter[] {
    return lookup.runs.flatMap((step) => {
      const filter =
        step.table === null ? undefined : this.filterOf(step.table, step.spanning_block ?? 0);
      return filter ? [filter] : [];
    });
  }

  /** The cell of a table that holds a block; undefined if the map does not show it. */
  cellOf(table: number, block: number): Cell | undefined {
    const cells = this.#cells.get(table);
    if (!cells) return undefined;
    const cell = cells[lowest(cells.length, (at) => item(cells, at).firstBlock > block) - 1];
    return cell && block < cell.firstBlock + cell.blockCount ? cell : undefined;
  }

  /** The cell that a step of a lookup came to, `position` being the key's place on the axis. */
  cellFor(step: RunStep, position: number): Cell | undefined {
    if (step.table === null) return undefined;
    const own = this.cellOf(step.table, step.spanning_block ?? 0);
    if (own) return own;
    // In stores of very many tables some stand for their neighbours.
    const cells = this.lanes[this.#laneNamed(step)]?.cells ?? [];
    const near = cells[lowest(cells.length, (at) => item(cells, at).start > position) - 1];
    return near && near.table.table_count > 1 ? near : undefined;
  }

  /** The lane of a lookup's step; -1 if the map has none. */
  laneOf(step: RunStep, position: number): number {
    return this.cellFor(step, position)?.lane ?? this.#laneNamed(step);
  }

  #laneNamed(step: RunStep): number {
    return this.lanes.findIndex(
      (lane) => lane.level === step.level && lane.run.number === step.run,
    );
  }

  /** Whether all tables that a lookup came to are still there. */
  holds(lookup: Lookup): boolean {
    return lookup.runs.every((step) => step.table === null || this.cellFor(step, lookup.position));
  }

  /** Whether filters hold prefixes of keys. */
  get hasPrefixes(): boolean {
    return this.lanes.some(({ run }) => run.tables.some((table) => table.filter_key !== "whole"));
  }

  lookupsOf(kind: Lookup["kind"]): Lookup[] {
    return this.page.lookups.filter((lookup) => lookup.kind === kind);
  }

  /** Recorded lookups of a kind: first those whose filters avoided the most reads. */
  examples(kind: Lookup["kind"]): Lookup[] {
    return this.lookupsOf(kind).sort((a, b) => worth(b) - worth(a));
  }

  /** The damaged blocks of a cell. */
  damageOf(cell: Cell): Damage[] {
    const end = cell.firstBlock + cell.blockCount;
    return this.page.damage.filter(
      (one) => one.table === cell.table.number && one.block >= cell.firstBlock && one.block < end,
    );
  }
}

/** How much a lookup shows; of equal ones, first the one with room for words beside it. */
function worth(lookup: Lookup): number {
  const spanned = lookup.runs.some((run) => run.spanning_block !== null) ? 1 : 0;
  const isPlain = spanned + (isHidden(lookup) ? 0 : 0.5);
  return (
    lookup.reads_without_filters -
    lookup.blocks_read +
    isPlain -
    Math.abs(lookup.position - 0.35) / 4
  );
}

/** Where places on one map's axis of keys lie on another's: blocks that both show stay together. */
export function moved(from: Model, to: Model): (place: number) => number {
  const known: [number, number][] = [
    [0, 0],
    [1, 1],
  ];
  for (const lane of from.lanes)
    for (const cell of lane.cells) {
      const other = to.cellOf(cell.table.number, cell.firstBlock);
      if (other?.firstBlock !== cell.firstBlock) continue;
      known.push([cell.start, other.start]);
      if (other.blockCount === cell.blockCount) known.push([cell.end, other.end]);
    }
  known.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return (place) => {
    const after = lowest(known.length, (at) => item(known, at)[0] > place);
    const [left, there] = item(known, Math.max(0, after - 1));
    const [right, beyond] = item(known, Math.min(known.length - 1, after));
    return right > left ? there + ((place - left) / (right - left)) * (beyond - there) : there;
  };
}

function filterKey(table: number, block: number | null): string {
  return `${table}/${block ?? "all"}`;
}

function cellAt(table: Table, at: number, lane: number, level: number, index: number): Cell {
  const cells: Cells = table.cells;
  const firstBlock = item(cells.first_block, at);
  const next =
    at + 1 < cells.first_block.length ? item(cells.first_block, at + 1) : table.block_count;
  return {
    lane,
    level,
    table,
    at,
    index,
    firstBlock,
    blockCount: next - firstBlock,
    start: item(cells.start, at),
    end: item(cells.end, at),
    size: item(cells.size_bytes, at),
  };
}

/** Whether an entry was found that is no value any more. */
export function isHidden({ outcome }: Lookup | RunStep): boolean {
  return outcome === "deleted" || outcome === "expired";
}

/** What became of a run in a lookup. */
export function markOf(step: RunStep): Mark {
  if (step.outcome === "no table") return "out of range";
  if (step.outcome === "filtered") return "no";
  if (step.outcome === "unread") return "maybe";
  if (step.outcome === "found" || isHidden(step)) return "found";
  if (step.is_false_positive) return "false positive";
  return "read";
}

/** The bits of a filter as an array of 0 and 1. */
export function bitsOf(filter: Filter): Uint8Array {
  const packed = Uint8Array.from(atob(filter.bits), (letter) => letter.charCodeAt(0));
  const bits = new Uint8Array(filter.shown_bits);
  for (let i = 0; i < bits.length; i++) bits[i] = ((packed[i >> 3] ?? 0) >> (i & 7)) & 1;
  return bits;
}
