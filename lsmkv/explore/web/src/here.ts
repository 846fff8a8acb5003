// A lookup of any key on a page in a file: by the blocks' ranges, and the bits of their filters.

import { bitsOfKey } from "./bloom";
import type { FilterStep, Lookup, RunStep } from "./contract";
import { item } from "./items";
import { fromHex, fromText, inHex } from "./keys";
import { bitsOf, type Cell, type Lane, type Model } from "./model";
import { sum } from "./variants";

const MOST_TEXT = 60; // letters of a key in the page's data; a longer one ends with "..."
const MOST_HEX = 64; // the same in hex

/** What the page can tell of a key; an Error says why it cannot. */
export function lookUpHere(model: Model, key: Uint8Array, text: string): Lookup {
  const { memtable_key_counts, blocks_per_cell } = model.page.map;
  if (blocks_per_cell > 1 || model.hasPrefixes)
    throw new Error(
      "Only a live page (--serve) looks up any key where filters hold prefixes, or cells several blocks.",
    );
  const runs = model.lanes.map((lane) => runStep(model, lane, key));
  const spanning = runs.filter((run) => run.spanning_block !== null);
  const held = memtable_key_counts.some((count) => count > 0);
  const cells = model.lanes.flatMap((lane) => lane.cells);
  const below = cells.filter((cell) => compare(key, firstKey(cell)) > 0);
  const bytes = (some: Cell[]): number => sum(some, (cell) => cell.size);
  return {
    kind: "typed",
    key: { text, hex: inHex(key), byte_count: key.length },
    position: bytes(below) / Math.max(1, bytes(cells)),
    seq: 0,
    outcome: held || runs.some((run) => run.outcome === "unread") ? "unknown" : "absent",
    value_text: null,
    value_bytes: 0,
    expires_at_s: null,
    memtables: memtable_key_counts.map((count, at) => ({
      role: at === 0 ? "active" : "flushing",
      log_number: 0,
      entry_count: count,
      outcome: count > 0 ? "unknown" : "absent",
      first_seq: 0,
    })),
    runs,
    blocks_searched: 0,
    blocks_read: 0,
    read_bytes: 0,
    filters_asked: runs.filter((run) => run.filter?.probes.length).length,
    filter_negatives: runs.filter((run) => run.outcome === "filtered").length,
    false_positives: 0,
    reads_without_filters: spanning.length,
    read_bytes_without_filters: sum(spanning, (run) => run.spanning_bytes),
    rebuilt: [],
  };
}

function runStep(model: Model, lane: Lane, key: Uint8Array): RunStep {
  const step: RunStep = {
    level: lane.level,
    run: lane.run.number,
    table: null,
    file_name: null,
    block: null,
    filter: null,
    blocks: [],
    outcome: "no table",
    seq: null,
    is_false_positive: false,
    spanning_block: null,
    spanning_bytes: 0,
    index_bytes_per_block: 0,
  };
  const bound = (hex: string): Bound => [fromHex(hex), hex.length >= MOST_HEX];
  const cell = lane.cells.findLast(
    (one) =>
      compare(key, bound(one.table.smallest.hex)) >= 0 &&
      (one.at === 0 || compare(key, firstKey(one)) >= 0),
  );
  if (!cell || compare(key, bound(cell.table.largest.hex)) > 0) return step;
  const { table, firstBlock } = cell;
  const filter = asked(model, cell, key);
  return {
    ...step,
    table: table.number,
    file_name: table.file_name,
    block: firstBlock,
    filter,
    outcome: filter?.verdict === "no" ? "filtered" : "unread",
    spanning_block: firstBlock,
    spanning_bytes: cell.size,
    index_bytes_per_block: table.index_bytes / table.block_count,
  };
}

/** The answer of a block's filter; null where the page cannot ask it. */
function asked(model: Model, { table, firstBlock }: Cell, key: Uint8Array): FilterStep | null {
  const filter = model.filterOf(table.number, firstBlock);
  if (filter?.policy !== "bloom") return null;
  const asked = new Set(bitsOfKey(key, filter.bit_count, filter.parameter));
  const probes = [...asked].sort((a, b) => a - b);
  const bits = bitsOf(filter);
  const unset = probes.filter((probe) => bits[probe] === 0);
  if (unset.length === 0 && probes.some((probe) => probe >= bits.length)) return null;
  return {
    verdict: unset.length > 0 ? "no" : "maybe",
    policy: filter.policy,
    scope: filter.block === null ? "table" : "block",
    key_count: filter.key_count,
    bit_count: filter.bit_count,
    probe_count: filter.parameter,
    expected_rate: filter.rate,
    read_bytes: 0,
    probes,
    unset_probes: unset,
    was_learnt: false,
    part: null,
    holds_part: false,
  };
}

/** Where a block or a table ends, and whether the page has only the start of it. */
type Bound = [bytes: Uint8Array, isCut: boolean];

function firstKey({ table, at }: Cell): Bound {
  const text = item(table.cells.from_key, at);
  const isCut = text.length >= MOST_TEXT && text.endsWith("...");
  return [fromText(isCut ? text.slice(0, -3) : text), isCut];
}

function compare(key: Uint8Array, [bytes, isCut]: Bound): number {
  const at = bytes.findIndex((byte, i) => byte !== key[i]);
  if (at >= 0) return (key[at] ?? -1) - item(bytes, at);
  if (isCut) throw new Error("The page has long keys cut: only a live page (--serve) tells.");
  return key.length - bytes.length;
}
