import assert from "node:assert/strict";
import { test } from "node:test";
import { tickTexts } from "../src/keys";
import { placeIn } from "../src/links";
import { extentOf } from "../src/replay";
import { SmallStore } from "../src/small";
import { toyBits, toyFilter } from "../src/toy";

test("twelve puts are flushed three times and merged into one run of the newest versions", () => {
  const store = new SmallStore();
  for (const [at, key] of [..."abcdaefgbhia"].entries()) store.put(key, String(at));
  assert.equal(store.runs.length, 3);
  store.compact();
  const stored = store.runs.flatMap((run) => run.blocks.flatMap((block) => block.entries));
  assert.deepEqual(
    stored.map((entry) => entry.key),
    [..."abcdefghi"],
  );
  assert.equal(stored[0]?.value, "11");
  assert.deepEqual([store.counts.writes, store.counts.written, store.runs.length], [12, 21, 1]);
});

test("a deletion hides what is older until a compaction drops both", () => {
  const store = new SmallStore();
  for (const key of "abcd") store.put(key, "old");
  store.put("b", null);
  store.flush();
  store.get("b");
  assert.match(store.text, /^get b: deleted. 1 block read/);
  store.compact();
  assert.equal(store.runs[0]?.blocks[0]?.entries.length, 3);
});

test("the counts of a small store are of its reads: without filters each absent key costs some", () => {
  for (const [bitsPerKey, reads] of [
    [0, 300],
    [20, 0],
  ] as const) {
    const store = new SmallStore();
    store.bitsPerKey = bitsPerKey;
    for (const key of "aefzaghzaijz") store.put(key, key);
    for (let at = 0; at < 100; at++) store.get(`b${at}`);
    const { counts } = store;
    assert.deepEqual([counts.reads + counts.avoided, counts.wasted], [300, counts.reads]);
    assert.ok(Math.abs(counts.reads - reads) <= 3);
  }
});

test("a toy filter never denies a word that it holds", () => {
  const words = ["fox", "hare", "owl", "bee", "ant", "dog", "ß", "日本"];
  for (const probes of [1, 2, 4, 8]) {
    const set = toyFilter(words, probes);
    for (const word of words) assert.ok(toyBits(word, probes).every((bit) => set.has(bit)));
  }
});

test("keys on an axis are short, and differ", () => {
  assert.deepEqual(tickTexts(["user0001", "user0500"]), ["user0001", "user0500"]);
  assert.deepEqual(tickTexts(["/long/path/of/a", "/long/path/of/b"]), ["…/a", "…/b"]);
  assert.deepEqual(tickTexts(["abcdefghijklmnop", "b"]), ["abcdefghijk…", "b"]);
  assert.deepEqual(tickTexts(["only", "only"]), ["only", "only"]);
  const [lib, packages] = ["python/lib/", "python/lib/site-packages/"];
  assert.deepEqual(
    tickTexts([`${lib}LICENSE`, `${packages}awscli`, `${packages}numpy`, `${packages}numpy`]),
    ["…/LICENSE", "…/site-pack…", "…/numpy", "…/numpy"],
  );
});

test("an address names a scene, a key and a rate", () => {
  assert.deepEqual(placeIn("#scene=3&key=a%26b&p=0.01"), { scene: "3", key: "a&b", p: "0.01" });
  assert.deepEqual(placeIn(""), {});
});

test("the widest run of the whole history gives its scale", () => {
  const table = (number: number, size_bytes: number, run = number) => ({
    number,
    level: 0,
    run,
    size_bytes,
    entry_count: 1,
  });
  const steps = [
    { added: [table(1, 10)], removed: [] },
    { added: [table(2, 30), table(3, 30, 2)], removed: [] },
    { added: [table(4, 50)], removed: [1, 2, 3] },
  ] as unknown as Parameters<typeof extentOf>[0];
  assert.deepEqual(extentOf(steps), { widest: 60, runs: 2 });
});
