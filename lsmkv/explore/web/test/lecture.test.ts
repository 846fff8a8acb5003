import assert from "node:assert/strict";
import { test } from "node:test";
import { framesOf } from "../src/flow";
import { tickTexts } from "../src/keys";
import { placeIn } from "../src/links";
import { extentOf } from "../src/replay";
import { toyBits, toyFilter } from "../src/toy";

test("twelve puts are flushed three times and merged into one run of the newest versions", () => {
  const writes = ["a", "b", "c", "d", "a", "e", "f", "g", "b", "h", "i", "a"];
  const frames = framesOf(writes);
  const last = frames.at(-1);
  const stored = last?.entries.filter((entry) => entry.place) ?? [];
  assert.deepEqual(stored.map((entry) => entry.key).sort(), [..."abcdefghi"]);
  assert.equal(stored.find((entry) => entry.key === "a")?.version, 12);
  assert.equal(stored.find((entry) => entry.key === "b")?.version, 9);
  assert.deepEqual([last?.puts, last?.written, last?.runs], [12, 21, 1]);
  assert.ok(frames.some((frame) => frame.runs === 3));
});

test("a merge moves one key at a time", () => {
  const frames = framesOf(["a", "b", "c", "d", "a", "b", "e", "f"]);
  const merging = frames.filter((frame) => frame.text.startsWith("The merge"));
  assert.deepEqual(
    merging.map((frame) => frame.text),
    [
      "The merge takes a, and drops 1 older version.",
      "The merge takes b, and drops 1 older version.",
      "The merge takes c.",
      "The merge takes d.",
      "The merge takes e.",
      "The merge takes f.",
    ],
  );
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
