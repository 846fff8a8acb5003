import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, count, duration, integer, percent, saved, significant, taken } from "../src/format";

test("bytes are in the largest unit that fits", () => {
  assert.equal(bytes(0), "0 bytes");
  assert.equal(bytes(1), "1 byte");
  assert.equal(bytes(1536), "1.5 KiB");
  assert.equal(bytes(3 * 2 ** 30), "3.0 GiB");
  assert.equal(bytes(2 ** 52), "4,096 TiB");
});

test("what index and filters take is told in all, by key and by block", () => {
  const table = { entry_count: 1000, block_count: 32 };
  assert.equal(taken(160, table), "160 bytes, 0.16 bytes a key, 5.00 (40 bits) a block");
  assert.equal(taken(0, { entry_count: 0, block_count: 0 }).slice(0, 7), "0 bytes");
});

test("shares of 99, 99.9 and 99.99 percent differ in print", () => {
  assert.equal(saved(0.9), "90.0 %");
  assert.equal(saved(0.99), "99.00 %");
  assert.equal(saved(0.999), "99.900 %");
  assert.equal(saved(0.9999), "99.9900 %");
  assert.equal(saved(1), "100 %");
  assert.equal(saved(0), "0 %");
});

test("rates have three significant digits and no exponent", () => {
  assert.equal(percent(0.01), "1 %");
  assert.equal(percent(0.009691), "0.969 %");
  assert.equal(percent(0.000012345), "0.00123 %");
  assert.equal(percent(null), "unknown");
  assert.equal(percent(1), "100 %");
});

test("counts agree with their nouns", () => {
  assert.equal(count(1, "block"), "1 block");
  assert.equal(count(1234, "entry", "entries"), "1,234 entries");
  assert.equal(integer(0.6), "1");
});

test("durations are in a readable unit", () => {
  assert.equal(duration(0), "0 ms");
  assert.equal(duration(0.1), "0.1 ms");
  assert.equal(duration(1500), "1.5 s");
  assert.equal(duration(600_000), "10 min");
});

test("significant digits are kept for small and large numbers", () => {
  assert.equal(significant(1234.5, 3), "1,235");
  assert.equal(significant(0.0012345, 3), "0.00123");
});
