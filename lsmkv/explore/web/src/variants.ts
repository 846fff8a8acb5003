// The same lookup under other conditions: with rebuilt filters, or with a small block cache.

import type { Lookup, RunStep } from "./contract";
import { isHidden } from "./model";

/** What the page's controls choose. */
export interface Conditions {
  rate: number | null; // an item of the page's rates; null for the store's own filters
  isCached: boolean;
}

/** What a lookup would have done; itself where the conditions are those that it ran under. */
export function variantOf(lookup: Lookup, { rate, isCached }: Conditions): Lookup {
  const passing = rate === null ? undefined : lookup.rebuilt[rate];
  if (!passing && !isCached) return lookup;
  const runs = lookup.runs.map((run, at) => {
    const asked = passing ? withFilter(run, passing.includes(at)) : run;
    return isCached && lookup.cached_runs.includes(at) ? inCache(asked) : asked;
  });
  const unread = runs.filter(
    (run, at) => run.spanning_block !== null && !(isCached && lookup.cached_runs.includes(at)),
  );
  const filters = runs.flatMap((run) => run.filter ?? []);
  const reads = runs.flatMap((run) => run.blocks).filter((block) => !block.was_cached);
  return {
    ...lookup,
    runs,
    blocks_searched: sum(runs, (run) => run.blocks.length),
    blocks_read: reads.length,
    read_bytes: sum(reads, (block) => block.length_bytes) + sum(filters, (one) => one.read_bytes),
    filters_asked: filters.filter((one) => one.verdict === "no" || one.verdict === "maybe").length,
    filter_negatives: runs.filter((run) => run.outcome === "filtered").length,
    false_positives: runs.filter((run) => run.is_false_positive).length,
    reads_without_filters: unread.length,
    read_bytes_without_filters: sum(unread, (run) => run.spanning_bytes),
  };
}

/** A run whose block has a rebuilt filter, which lets the key pass or not. */
function withFilter(run: RunStep, passes: boolean): RunStep {
  if (run.spanning_block === null) return { ...run, filter: null, outcome: "no table" };
  const filter = {
    verdict: passes ? ("maybe" as const) : ("no" as const),
    policy: "bloom",
    scope: "block" as const,
    key_count: null,
    bit_count: 0,
    probe_count: 0,
    expected_rate: null,
    read_bytes: 0,
    probes: [],
    unset_probes: [],
    was_learnt: false,
    part: run.filter?.part ?? null,
    holds_part: passes && (run.filter?.holds_part ?? false),
  };
  if (!passes) return { ...run, filter, blocks: [], outcome: "filtered", is_false_positive: false };
  const ends = run.outcome === "found" || isHidden(run);
  return {
    ...run,
    filter,
    blocks: [
      {
        number: run.spanning_block,
        offset: 0,
        length_bytes: run.spanning_bytes,
        was_cached: false,
      },
    ],
    outcome: ends ? run.outcome : "absent",
    is_false_positive: !ends,
  };
}

/** The same run with its block in the cache: to search it is no read, and to skip it spares none. */
function inCache(run: RunStep): RunStep {
  return {
    ...run,
    spanning_bytes: 0,
    blocks: run.blocks.map((block) => ({ ...block, was_cached: true })),
  };
}

/** Lookups added up. */
export interface Totals {
  lookups: number;
  without: number;
  done: number;
}

export function totalsOf(lookups: Lookup[]): Totals {
  return {
    lookups: lookups.length,
    without: sum(lookups, (one) => one.reads_without_filters),
    done: sum(lookups, (one) => one.blocks_read),
  };
}

export function sum<T>(items: T[], value: (one: T) => number): number {
  return items.reduce((total, one) => total + value(one), 0);
}
