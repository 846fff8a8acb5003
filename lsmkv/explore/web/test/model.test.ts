import assert from "node:assert/strict";
import { test } from "node:test";
import type { Filter, HistoryStep, RunStep } from "../src/contract";
import { eightBytes } from "../src/keys";
import { bitsOf, markOf } from "../src/model";
import { byteTicks, liveAfter } from "../src/replay";

test("a number is 8 bytes, the highest first", () => {
  assert.equal(eightBytes("258"), "0000000000000102");
  assert.equal(eightBytes(String(2n ** 64n - 1n)), "ffffffffffffffff");
  for (const none of ["", "-1", "1.5", "x", String(2n ** 64n), "1e3"])
    assert.equal(eightBytes(none), "");
});

test("bit i of a filter is bit i mod 8 of byte i div 8", () => {
  const filter = { bits: btoa("\x01\x80"), shown_bits: 16 } as Filter;
  const set = [...bitsOf(filter)].flatMap((bit, i) => (bit ? [i] : []));
  assert.deepEqual(set, [0, 15]);
});

const STEP = { outcome: "absent", is_false_positive: false, blocks: [] } as unknown as RunStep;
const READ = { number: 0, offset: 0, length_bytes: 1 };

test("each way through a run has its mark", () => {
  assert.equal(markOf({ ...STEP, outcome: "no table" }), "out of range");
  assert.equal(markOf({ ...STEP, outcome: "filtered" }), "no");
  assert.equal(markOf({ ...STEP, outcome: "found", blocks: [READ] }), "found");
  assert.equal(markOf({ ...STEP, is_false_positive: true, blocks: [READ] }), "false positive");
  assert.equal(markOf({ ...STEP, blocks: [READ] }), "read");
});

test("the tables after a step are those added and not removed, moved ones at their new place", () => {
  const table = (number: number, level: number) => ({
    number,
    level,
    run: 1,
    size_bytes: 10,
    entry_count: 1,
  });
  const steps = [
    { added: [table(1, 0)], removed: [] },
    { added: [table(2, 0)], removed: [] },
    { added: [table(1, 1)], removed: [1] },
    { added: [table(3, 2)], removed: [1, 2] },
  ] as unknown as HistoryStep[];
  const places = (at: number) => liveAfter(steps, at).map((t) => `${t.number}@${t.level}`);
  assert.deepEqual(places(1), ["1@0", "2@0"]);
  assert.deepEqual(places(2), ["2@0", "1@1"]);
  assert.deepEqual(places(3), ["3@2"]);
});

test("ticks of bytes are round in KiB", () => {
  assert.deepEqual(byteTicks(2600), [0, 1024, 2048]);
  assert.deepEqual(byteTicks(4096), [0, 1024, 2048, 3072, 4096]);
  assert.deepEqual(byteTicks(0), [0]);
});
