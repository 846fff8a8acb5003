import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunStep } from "../src/contract";
import { inShort, inWords } from "../src/marks";

const NO = {
  outcome: "filtered",
  filter: { verdict: "no", scope: "block", expected_rate: 0.01, was_learnt: false, part: null },
  blocks: [],
  is_false_positive: false,
  spanning_bytes: 2048,
} as unknown as RunStep;

test("what a filter spared is a read of its block, if there was one left", () => {
  assert.equal(inShort(NO), "filter: no, 2.0 KiB unread");
  assert.deepEqual(inWords(NO).slice(1), ["2.0 KiB not read."]);
  const cached = { ...NO, spanning_bytes: 0 };
  assert.equal(inShort(cached), "filter: no");
  assert.deepEqual(inWords(cached).slice(1), ["No read was left to spare."]);
});

test("a filter of prefixes names the prefix it was asked for", () => {
  const filter = { ...NO.filter, part: "u042/" };
  assert.equal(
    inWords({ ...NO, filter } as RunStep)[0],
    "The block's filter says no of the prefix “u042/”.",
  );
});

test("p stands where a filter may be wrong, and not beside a no", () => {
  const maybe = { ...NO, outcome: "absent", filter: { ...NO.filter, verdict: "maybe" } };
  assert.equal(
    inWords(maybe as RunStep)[0],
    "The block's filter says maybe, as it does of p = 1 % of absent keys.",
  );
  assert.equal(inWords(NO)[0], "The block's filter says no.");
});
