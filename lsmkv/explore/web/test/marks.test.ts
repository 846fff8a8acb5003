import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunStep } from "../src/contract";
import { inShort, inWords } from "../src/marks";

const NO = {
  outcome: "filtered",
  filter: { verdict: "no", scope: "block", expected_rate: 0.01, was_learnt: false },
  blocks: [],
  is_false_positive: false,
  spanning_bytes: 2048,
  spanning_was_cached: false,
} as unknown as RunStep;

test("what a filter spared is a read only of a block that the cache does not hold", () => {
  assert.equal(inShort(NO), "filter: no, 2.0 KiB unread");
  assert.deepEqual(inWords(NO).slice(1), ["2.0 KiB not read."]);
  const cached = { ...NO, spanning_was_cached: true };
  assert.equal(inShort(cached), "filter: no, block cached");
  assert.deepEqual(inWords(cached).slice(1), ["Its block, in the cache, not searched."]);
});
