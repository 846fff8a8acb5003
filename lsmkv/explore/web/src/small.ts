// A store so small that one sees all of it: log, memtable, runs of blocks with real Bloom filters, and counts.

import { bitsOfKey } from "./bloom";
import { count } from "./format";
import type { Mark } from "./model";

const MEMTABLE = 4; // keys; a full one is flushed
const BLOCK = 4; // entries

export interface Entry {
  key: string;
  value: string | null; // null is a deletion
}

export interface Block {
  entries: Entry[];
  bitCount: number; // 0 is no filter
  probes: number;
  bits: Set<number>;
  mark: Mark | null; // what the last lookup did with it
}

export class SmallStore {
  log: Entry[] = []; // writes since the last flush
  memtable: Entry[] = [];
  runs: { level: number; blocks: Block[] }[] = []; // the newest first
  bitsPerKey = 10; // of filters that are written from now on
  counts = { writes: 0, written: 0, gets: 0, reads: 0, avoided: 0, wasted: 0 };
  text = "An empty store: nothing in the log, nothing in memory.";

  put(key: string, value: string | null): void {
    this.#unmark();
    const entry = { key, value };
    this.counts.writes += 1;
    this.log.push(entry);
    this.memtable = inOrder([...this.memtable.filter((one) => one.key !== key), entry]);
    const act = `${value === null ? "delete" : "put"} ${key}`;
    this.text = `${act}: to the end of the log, and into the memtable, which is sorted.`;
    if (this.memtable.length >= MEMTABLE) {
      this.flush();
      this.text = `${act}: the memtable is full. ${this.text}`;
    }
  }

  /** Writes the memtable as one sorted run. */
  flush(): void {
    this.#unmark();
    if (this.memtable.length === 0) {
      this.text = "Nothing is in memory to flush.";
      return;
    }
    this.#write(0, this.memtable);
    [this.memtable, this.log] = [[], []];
    this.text = "A flush writes it as one sorted run, and its log can go.";
  }

  /** Merges all runs into one: the newest entry of each key stays, and no deletion. */
  compact(): void {
    this.#unmark();
    const merged = new Map<string, Entry>();
    const all = this.runs.flatMap((run) => run.blocks.flatMap((block) => block.entries));
    for (const entry of all) if (!merged.has(entry.key)) merged.set(entry.key, entry);
    const kept = [...merged.values()].filter((one) => one.value !== null);
    const before = this.runs.length;
    this.runs = [];
    if (kept.length > 0) this.#write(1, inOrder(kept));
    this.text =
      `${count(before, "run")} merged: ${count(all.length, "entry", "entries")} read, ${kept.length} written. ` +
      "Older versions and deletions are gone.";
  }

  get(key: string): void {
    this.#unmark();
    this.counts.gets += 1;
    const held = this.memtable.find((one) => one.key === key);
    const before = { ...this.counts };
    let found: Entry | undefined = held;
    for (const run of found ? [] : this.runs) {
      const block = run.blocks.findLast((one) => (one.entries[0]?.key ?? "") <= key);
      if (!block || (run.blocks.at(-1)?.entries.at(-1)?.key ?? "") < key) continue;
      const bits = bitsOfKey(new TextEncoder().encode(key), block.bitCount, block.probes);
      if (bits.some((bit) => !block.bits.has(bit))) {
        this.counts.avoided += 1;
        block.mark = "no";
        continue;
      }
      this.counts.reads += 1;
      found = block.entries.find((one) => one.key === key);
      block.mark = found ? "found" : block.bitCount > 0 ? "false positive" : "read";
      if (found) break;
      this.counts.wasted += 1;
    }
    const { reads, avoided, wasted } = this.counts;
    const is = !found ? "absent" : found.value === null ? "deleted" : `found, ${found.value}`;
    this.text =
      `get ${key}: ${is}${held ? ", in memory" : ""}. ${count(reads - before.reads, "block")} read, ` +
      `${wasted - before.wasted} of them wasted; filters avoided ${count(avoided - before.avoided, "read")}.`;
  }

  #write(level: number, entries: Entry[]): void {
    const blocks: Block[] = [];
    for (let at = 0; at < entries.length; at += BLOCK)
      blocks.push(this.#block(entries.slice(at, at + BLOCK)));
    this.counts.written += entries.length;
    this.runs.unshift({ level, blocks });
  }

  #block(entries: Entry[]): Block {
    const bitCount = this.bitsPerKey * entries.length;
    const probes = bitCount > 0 ? Math.max(1, Math.round(this.bitsPerKey * Math.LN2)) : 0;
    const keys = entries.map((one) => new TextEncoder().encode(one.key));
    const bits = new Set(keys.flatMap((key) => bitsOfKey(key, bitCount, probes)));
    return { entries, bitCount, probes, bits, mark: null };
  }

  #unmark(): void {
    for (const run of this.runs) for (const block of run.blocks) block.mark = null;
  }
}

function inOrder(entries: Entry[]): Entry[] {
  return [...entries].sort((a, b) => (a.key < b.key ? -1 : 1));
}
