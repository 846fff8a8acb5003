// What two scenes of the lecture show of their own: numbers of the lookup on show.

import type { Meaning } from "./answer";
import type { Device, Lookup } from "./contract";
import { h } from "./dom";
import { bytes, count, duration, significant } from "./format";
import { wasAsked } from "./marks";
import { sum } from "./variants";

/** What asking a lookup's filters cost in its first `step` steps, and would if each came with its block. */
export function apart(lookup: Lookup, step: number) {
  const asked = lookup.runs
    .slice(0, Math.max(0, step - lookup.memtables.length))
    .filter((run) => wasAsked(run.filter));
  const reads = asked.flatMap((run) => run.blocks);
  const spanned = asked.filter((run) => run.spanning_block !== null);
  return {
    asked: asked.length,
    filterBytes: sum(asked, (run) => Math.ceil((run.filter?.bit_count ?? 0) / 8)),
    indexBytes: sum(asked, (run) => run.index_bytes_per_block),
    reads: reads.length,
    readBytes:
      sum(reads, (block) => block.length_bytes) + sum(asked, (run) => run.filter?.read_bytes ?? 0),
    readsWithBlocks: spanned.length,
    readBytesWithBlocks: sum(spanned, (run) => run.spanning_bytes),
  };
}

/** Compares filters that come with their blocks with filters apart from them, for one lookup. */
export function apartProof(lookup: Lookup, step: number): HTMLElement[] {
  const told = apart(lookup, step);
  const whole = told.readBytesWithBlocks;
  return [
    h("h3", {}, "To ask the filters of this key"),
    bar(
      "inside their blocks",
      `${count(told.readsWithBlocks, "block")}, ${bytes(whole)} read`,
      whole > 0 ? 1 : 0,
      "wasted",
    ),
    bar(
      "apart, in memory",
      `${count(told.reads, "block")}, ${bytes(told.readBytes)} read`,
      told.readBytes / Math.max(1, whole),
      "avoided",
    ),
    bar(
      `the ${count(told.asked, "filter")} asked`,
      `${bytes(told.filterBytes)} of memory`,
      told.filterBytes / Math.max(1, whole),
    ),
    bar(
      "their blocks in the index",
      `${significant(told.indexBytes, 3)} bytes of memory`,
      told.indexBytes / Math.max(1, whole),
    ),
  ];
}

/** What a read of each device takes, on a scale of tens. */
export function costProof(devices: Device[]): HTMLElement[] {
  const share = (ms: number): number => (Math.log10(ms) + 3) / 5.5; // from a microsecond
  return devices.map(({ name, read_ms, assumption }) =>
    bar(`${name} (${assumption})`, `${duration(read_ms)} a read`, share(read_ms)),
  );
}

function bar(name: string, text: string, share: number, meaning?: Meaning): HTMLElement {
  const fill = h("span", { class: meaning ? `bar of-${meaning}` : "bar" });
  fill.style.setProperty("width", `${100 * Math.min(1, share)}%`);
  return h("p", { class: "measure" }, `${name}: `, h("b", {}, text), fill);
}
