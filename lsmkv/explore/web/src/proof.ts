// What two scenes of the lecture show of their own: numbers of the lookup on show.

import type { Meaning } from "./answer";
import type { App } from "./app";
import type { Lookup, RunStep } from "./contract";
import { h } from "./dom";
import { bytes, count, significant } from "./format";
import { wasAsked } from "./marks";

/** What asking a lookup's filters cost, and would have cost if each came with its block. */
export interface Apart {
  asked: number;
  filterBytes: number; // of the filters asked
  indexBytes: number; // of their blocks in the index
  reads: number;
  readBytes: number;
  readsWithBlocks: number;
  readBytesWithBlocks: number;
}

/** Adds up the first `step` steps.  Blocks that the cache held count for neither. */
export function apart(lookup: Lookup, step: number): Apart {
  const sum: Apart = {
    asked: 0,
    filterBytes: 0,
    indexBytes: 0,
    reads: 0,
    readBytes: 0,
    readsWithBlocks: 0,
    readBytesWithBlocks: 0,
  };
  for (const run of lookup.runs.slice(0, Math.max(0, step - lookup.memtables.length))) {
    if (!wasAsked(run.filter)) continue;
    sum.asked += 1;
    sum.filterBytes += Math.ceil(run.filter.bit_count / 8);
    sum.indexBytes += run.index_bytes_per_block;
    sum.readBytes += run.filter.read_bytes;
    for (const block of run.blocks) {
      if (block.was_cached) continue;
      sum.reads += 1;
      sum.readBytes += block.length_bytes;
    }
    if (run.spanning_block === null) continue;
    sum.readsWithBlocks += 1;
    sum.readBytesWithBlocks += run.spanning_bytes;
  }
  return sum;
}

/** Compares filters that come with their blocks with filters apart from them, for one lookup. */
export function apartProof(lookup: Lookup, step: number): HTMLElement[] {
  const sum = apart(lookup, step);
  const whole = sum.readBytesWithBlocks;
  return [
    h("h3", {}, "To ask the filters of this key"),
    bar(
      "inside their blocks",
      `${count(sum.readsWithBlocks, "block")}, ${bytes(whole)} read`,
      whole > 0 ? 1 : 0,
      "wasted",
    ),
    bar(
      "apart, in memory",
      `${count(sum.reads, "block")}, ${bytes(sum.readBytes)} read`,
      sum.readBytes / Math.max(1, whole),
      "avoided",
    ),
    bar(
      `the ${count(sum.asked, "filter")} asked`,
      `${bytes(sum.filterBytes)} of memory`,
      sum.filterBytes / Math.max(1, whole),
    ),
    bar(
      "their blocks in the index",
      `${significant(sum.indexBytes, 3)} bytes of memory`,
      sum.indexBytes / Math.max(1, whole),
    ),
  ];
}

function bar(name: string, text: string, share: number, meaning?: Meaning): HTMLElement {
  const fill = h("span", { class: meaning ? `bar of-${meaning}` : "bar" });
  fill.style.setProperty("width", `${100 * Math.min(1, share)}%`);
  return h("p", { class: "measure" }, `${name}: `, h("b", {}, text), fill);
}

/** The same lookup, once more; null where nobody can run it. */
export async function again(app: App, lookup: Lookup): Promise<Lookup | null> {
  const { hex, byte_count } = lookup.key;
  if (app.server && hex.length === 2 * byte_count) {
    const reply = await app.server.lookUp({ key: hex, form: "hex", pick: null });
    app.state.model.take(reply);
    app.count(reply.stats);
    return reply.lookup;
  }
  const { lookups } = app.state.model.page;
  const later = lookups.slice(lookups.indexOf(lookup) + 1);
  return later.find((one) => isSameKey(one, lookup)) ?? null;
}

/** Whether two lookups asked for one key, as far as the page holds it. */
export function isSameKey(one: Lookup, other: Lookup): boolean {
  const names = ["hex", "text", "byte_count"] as const;
  return names.every((name) => one.key[name] === other.key[name]);
}

/** A false positive, and what became of the same key asked again. */
export function againProof(first: Lookup, second: Lookup | null): HTMLElement[] {
  const passed = first.runs.find((run) => run.is_false_positive);
  if (!passed) return [h("h3", {}, "No filter erred for this key.")];
  const repeated = second?.runs.find(
    (run) => run.table === passed.table && run.level === passed.level && run.run === passed.run,
  );
  const rows = [row("first", passed)];
  if (repeated) rows.push(row("again", repeated));
  const body = h("tbody");
  body.append(...rows);
  const head = ["asked", "filter", "block", "bytes read"];
  const columns = h("tr", {}, ...head.map((text) => h("th", { scope: "col" }, text)));
  return [
    h("h3", {}, `One filter, asked ${repeated ? "twice" : "once"} for this key`),
    h("table", {}, h("thead", {}, columns), body),
    h("p", { class: "verdict" }, verdict(passed, repeated)),
  ];
}

function row(name: string, step: RunStep): HTMLElement {
  const [block] = step.blocks;
  const how = block ? (block.was_cached ? "cached" : "read") : "not read";
  const read = step.blocks.reduce((sum, one) => sum + (one.was_cached ? 0 : one.length_bytes), 0);
  const cells = [step.filter?.verdict ?? "nothing", how, bytes(read)];
  return h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((text) => h("td", {}, text)));
}

function verdict(first: RunStep, second: RunStep | undefined): string {
  if (!second)
    return (
      "A filter that does not learn answers by the same bits each time: it says maybe again, and its " +
      "block is read again unless the cache still holds it."
    );
  if (second.filter?.verdict === "no") return "The filter has learnt: it denies the key now.";
  const cached = second.blocks.some((block) => block.was_cached);
  return first.filter?.verdict === second.filter?.verdict && cached
    ? "The same answer by the same bits. Only the cache spared the read, while it holds the block."
    : "The same answer by the same bits, and the block was read again.";
}
