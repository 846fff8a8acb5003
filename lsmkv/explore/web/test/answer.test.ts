import assert from "node:assert/strict";
import { test } from "node:test";
import { answerOf, blank, summed } from "../src/answer";
import type { Lookup, Page, RunStep } from "../src/contract";
import { spared } from "../src/hero";
import { loads } from "../src/score";
import { totalsOf, variantOf } from "../src/variants";

const FILTER = {
  verdict: "no",
  scope: "block",
  read_bytes: 0,
  probes: [1, 2],
  unset_probes: [2],
  part: null,
};

/** A run whose filter said no, unless told otherwise. */
function run(more: object = {}): RunStep {
  return {
    outcome: "filtered",
    filter: FILTER,
    blocks: [],
    is_false_positive: false,
    spanning_block: 3,
    spanning_bytes: 1000,
    ...more,
  } as unknown as RunStep;
}

const BLOCK = { number: 3, offset: 0, length_bytes: 1000 };
const WASTED = {
  outcome: "absent",
  filter: { ...FILTER, verdict: "maybe" },
  blocks: [BLOCK],
  is_false_positive: true,
};
const FOUND = { ...WASTED, outcome: "found", is_false_positive: false };
const OUTSIDE = { outcome: "no table", filter: null, spanning_block: null, spanning_bytes: 0 };

function lookup(outcome: Lookup["outcome"], runs: RunStep[], more: object = {}): Lookup {
  const read = runs.flatMap((one) => one.blocks).length;
  return {
    outcome,
    runs,
    memtables: [],
    blocks_read: read,
    blocks_searched: read,
    filters_asked: runs.filter((one) => one.filter).length,
    filter_negatives: runs.filter((one) => one.outcome === "filtered").length,
    reads_without_filters: runs.filter((one) => one.spanning_block !== null).length,
    expires_at_s: null,
    rebuilt: [],
    ...more,
  } as unknown as Lookup;
}

function said(one: Lookup): string {
  return answerOf(one)
    .parts.map((part) => part.text)
    .join(" ");
}

test("an absent key says who could hold it, what filters said, and what was read", () => {
  const four = lookup("absent", [run(), run(), run(), run()]);
  assert.equal(said(four), "4 blocks could hold it. 4 filters said no. 0 reads.");
  assert.equal(answerOf(four).parts.at(-1)?.meaning, "avoided");
  const [why] = answerOf(four).notes;
  assert.match(why ?? "", /^Where a filter said no, at least one bit .* is not set\.$/);
  const disk = { name: "hard disk", read_ms: 12.4, assumption: "" };
  assert.equal(spared(four, disk), "Without filters: 4 reads, 49.6 ms from a hard disk. ");
  assert.equal(spared(lookup("absent", [run(WASTED)]), disk), "");
  assert.equal(
    said(lookup("absent", [run()])),
    "1 block could hold it. Its filter said no. 0 reads.",
  );
});

test("a false positive is a wasted read", () => {
  const one = lookup("absent", [run(), run(WASTED)]);
  assert.equal(said(one), "2 blocks could hold it. 1 filter said no, 1 maybe. 1 wasted read.");
  assert.equal(answerOf(one).parts.at(-1)?.meaning, "wasted");
});

test("where no filter was asked, the index answered", () => {
  const none = lookup("absent", [run(OUTSIDE), run(OUTSIDE)]);
  assert.equal(
    said(none),
    "No block could hold it: the index says so. No filter was asked. 0 reads.",
  );
  assert.equal(answerOf(none).parts.at(-1)?.meaning, undefined);
});

test("a present key is found with one read, and others may be wasted", () => {
  assert.equal(
    said(lookup("found", [run(), run(FOUND)])),
    "2 blocks could hold it. 1 filter said no, 1 maybe. 1 read found it.",
  );
  assert.equal(
    said(lookup("deleted", [run(WASTED), run({ ...FOUND, outcome: "deleted" })])),
    "2 blocks could hold it. 2 filters said maybe. 1 read found the deletion, 1 wasted.",
  );
  const expired = lookup("expired", [run({ ...FOUND, outcome: "expired" })], { expires_at_s: 0 });
  assert.equal(answerOf(expired).is, "has expired, on 1970-01-01 00:00:00 UTC.");
  assert.equal(
    said(expired),
    "1 block could hold it. Its filter said maybe. 1 read found it expired.",
  );
  const memtables = [{ outcome: "found" }];
  assert.equal(said(lookup("found", [], { memtables })), "The memtable has it. 0 reads.");
});

test("filters that are missing or off are named", () => {
  const without = { ...WASTED, is_false_positive: false };
  for (const [verdict, text] of [
    ["none", "They have no filters."],
    ["off", "Filters are off."],
    ["lost", "Their filters are damaged."],
  ]) {
    const one = run({ ...without, filter: { ...FILTER, verdict } });
    assert.equal(
      said(lookup("absent", [one, one])),
      `2 blocks could hold it. ${text} 2 wasted reads.`,
    );
  }
});

test("a prefix that is there is not the filter's mistake", () => {
  const filter = { ...WASTED.filter, part: "u1/", holds_part: true };
  const { notes } = answerOf(lookup("absent", [run({ ...WASTED, filter })]));
  assert.match(notes.join(" "), /asked for “u1\/”.* right to say maybe/);
});

test("of bits that are not set nothing is said where no filter said no", () => {
  assert.deepEqual(answerOf(lookup("absent", [run(WASTED)])).notes, []);
  assert.deepEqual(answerOf(lookup("found", [run(FOUND)])).notes, []);
});

test("what reading the filters took is told", () => {
  assert.equal(
    loads({ filter_reads: 4, filter_read_bytes: 4727 }),
    "Besides, the filters of all lookups here were read: 4 reads, 4.6 KiB. ",
  );
  assert.equal(loads({ filter_reads: 0 }), "");
});

test("an empty store says so", () => {
  const map = { entry_count: 0, memtable_key_counts: [0] };
  assert.equal(blank({ map } as unknown as Page).parts[0]?.text, "This store is empty.");
});

test("lookups add up to one sentence", () => {
  const all = [lookup("absent", [run(), run()]), lookup("absent", [run(WASTED), run()])];
  assert.equal(
    summed(totalsOf(all), "absent"),
    "2 absent keys tried: 4 reads without filters, 1 with them, 75.0 % avoided (95 % interval 30.1 % to 95.44 %).",
  );
  assert.equal(
    summed(totalsOf([lookup("absent", [run(OUTSIDE)])]), "absent"),
    "1 absent key tried: no block could hold it.",
  );
});

test("filters built anew say no to all but those who pass", () => {
  const one = lookup("found", [run(WASTED), run(), run(FOUND)], { rebuilt: [[0, 1, 2], [2]] });
  const [weak, strong] = [0, 1].map((rate) => variantOf(one, rate));
  assert.equal(weak?.blocks_read, 3);
  assert.equal(strong?.blocks_read, 1);
  assert.deepEqual(
    strong?.runs.map((step) => step.outcome),
    ["filtered", "filtered", "found"],
  );
  assert.equal(strong?.reads_without_filters, 3);
});
