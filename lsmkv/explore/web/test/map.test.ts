import assert from "node:assert/strict";
import { test } from "node:test";
import type { Filter, Lookup, Page, RunStep, Table } from "../src/contract";
import { item, lowest } from "../src/items";
import { type Lane, MOST_OTHER_FILTERS, Model, moved } from "../src/model";
import { firstFrom, labelsOf, nearestTo, rowsOf } from "../src/places";
import { apart } from "../src/proof";

/** A table of blocks of one size, whose keys lie between `start` and `end`. */
function table(number: number, blocks: number, start: number, end: number): Table {
  const place = (at: number) => start + ((end - start) * at) / blocks;
  const numbers = Array.from({ length: blocks }, (_, at) => at);
  return {
    number,
    block_count: blocks,
    table_count: 1,
    cells: {
      first_block: numbers,
      size_bytes: numbers.map(() => 100),
      start: numbers.map(place),
      end: numbers.map((at) => place(at + 1)),
      wasted: numbers.map(() => 0),
    },
  } as unknown as Table;
}

/** A store with a level for each list of tables, and a run in each. */
function store(...levels: Table[][]): Model {
  const map = {
    levels: levels.map((tables, number) => ({ number, runs: [{ number: 1, tables }] })),
  };
  return new Model({ map, filters: [], lookups: [] } as unknown as Page);
}

function step(level: number, table: number | null, block: number | null, more = {}): RunStep {
  return { level, run: 1, table, spanning_block: block, blocks: [], ...more } as unknown as RunStep;
}

test("the lowest of ascending numbers that is enough is found", () => {
  const numbers = [1, 3, 3, 7];
  for (const [wanted, at] of [
    [0, 0],
    [3, 1],
    [4, 3],
    [8, 4],
  ] as const)
    assert.equal(
      lowest(numbers.length, (i) => item(numbers, i) >= wanted),
      at,
    );
});

test("a block is found by its number", () => {
  const model = store([table(7, 3, 0, 0.5), table(8, 2, 0.5, 1)]);
  assert.equal(model.cellOf(8, 1)?.index, 4);
  assert.equal(model.cellOf(8, 2), undefined);
  assert.equal(model.cellOf(9, 0), undefined);
});

test("a cell is found by its place, and a narrow one by a place near it", () => {
  const [row] = rowsOf(store([table(1, 4, 0, 0.4), table(2, 4, 0.6, 1)]));
  assert.ok(row);
  assert.equal(firstFrom(row, 0), 0);
  assert.equal(nearestTo(row, 0.25, 0), 2);
  assert.equal(nearestTo(row, 0.45, 0), -1);
  assert.equal(nearestTo(row, 0.45, 0.06), 3);
  assert.equal(nearestTo(row, 0.57, 0.06), 4);
  assert.equal(nearestTo(row, 0.99, 0), 7);
});

test("every run of a level has its label, also the first one", () => {
  const lanes = [0, 0, 0, 1].map((level, at) => ({ level, run: { number: 8 - 2 * at } }));
  const texts = (laneHeight: number, labels = 74): string[] =>
    labelsOf({ em: 12, labels, laneHeight, gap: 6 }, lanes as Lane[]).map(({ text }) => text);
  const all = ["level 0", "run 8", "run 6", "run 4", "level 1", "run 2"];
  assert.deepEqual(texts(58), all);
  assert.deepEqual(texts(18), all);
  assert.deepEqual(texts(10), ["level 0", "level 1"]);
  assert.deepEqual(texts(58, 43), ["L0", "L1"]);
});

test("places move with the blocks that both maps show", () => {
  const before = store([table(1, 2, 0, 1)]);
  const after = store([table(2, 1, 0, 0.2)], [table(1, 2, 0.5, 1)]);
  const move = moved(before, after);
  assert.equal(move(0.5), 0.75);
  assert.equal(move(0.25), 0.625);
  assert.equal(move(1), 1);
});

test("a lookup is held while all tables that it came to are there", () => {
  const lookup = { runs: [step(0, 1, 0), step(1, null, null)], position: 0.1 };
  assert.ok(store([table(1, 2, 0, 1)]).holds(lookup as unknown as Lookup));
  assert.ok(!store([table(2, 2, 0, 1)]).holds(lookup as unknown as Lookup));
});

test("a table that moved down is drawn in its new lane", () => {
  const model = store([table(2, 1, 0, 1)], [table(1, 1, 0, 1)]);
  assert.equal(model.laneOf(step(0, 1, 0), 0.5), 1);
  assert.equal(model.laneOf(step(5, null, null), 0.5), -1);
});

test("of ever more filters the last ones are kept", () => {
  const model = store([table(1, 1, 0, 1)]);
  const most = 10 * MOST_OTHER_FILTERS;
  for (let block = 0; block < most; block++) model.addFilters([{ table: 1, block } as Filter]);
  const held = Array.from({ length: most }, (_, block) => model.filterOf(1, block)).filter(Boolean);
  assert.equal(held.length, MOST_OTHER_FILTERS);
  assert.ok(model.filterOf(1, most - 1));
});

test("filters apart are asked without reading the blocks that they spare", () => {
  const filter = { verdict: "no", bit_count: 801, read_bytes: 0 };
  const block = { length_bytes: 4000 };
  const spanned = { spanning_bytes: 4000, index_bytes_per_block: 5.5 };
  const lookup = {
    memtables: [{}],
    runs: [
      step(0, 1, 0, { filter, ...spanned }),
      step(1, 2, 0, { filter: { ...filter, verdict: "maybe" }, ...spanned, blocks: [block] }),
      step(2, 3, null, { filter, ...spanned }),
      step(3, 4, 0, { filter: { ...filter, verdict: "none" }, ...spanned, blocks: [block] }),
    ],
  } as unknown as Lookup;
  assert.deepEqual(apart(lookup, 5), {
    asked: 3,
    filterBytes: 303,
    indexBytes: 16.5,
    reads: 1,
    readBytes: 4000,
    readsWithBlocks: 2,
    readBytesWithBlocks: 8000,
  });
  assert.equal(apart(lookup, 2).asked, 1);
  assert.equal(apart(lookup, 0).asked, 0);
});
