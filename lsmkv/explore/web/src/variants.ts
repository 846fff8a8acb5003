// The same lookup with filters built anew, and lookups added up.

import type { Lookup, RunStep } from "./contract";
import { interval, saved } from "./format";
import { isHidden } from "./model";

/** What a lookup would have done with filters of one of the page's rates; itself with the store's own. */
export function variantOf(lookup: Lookup, rate: number | null): Lookup {
  const passing = rate === null ? undefined : lookup.rebuilt[rate];
  if (!passing) return lookup;
  const runs = lookup.runs.map((run, at) => withFilter(run, passing.includes(at)));
  const filters = runs.flatMap((run) => run.filter ?? []);
  const reads = runs.flatMap((run) => run.blocks);
  return {
    ...lookup,
    runs,
    blocks_searched: sum(runs, (run) => run.blocks.length),
    blocks_read: reads.length,
    read_bytes: sum(reads, (block) => block.length_bytes) + sum(filters, (one) => one.read_bytes),
    filters_asked: filters.filter((one) => one.verdict === "no" || one.verdict === "maybe").length,
    filter_negatives: runs.filter((run) => run.outcome === "filtered").length,
    false_positives: runs.filter((run) => run.is_false_positive).length,
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
      },
    ],
    outcome: ends ? run.outcome : "absent",
    is_false_positive: !ends,
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

/** The share of absent keys' reads that was avoided, with its 95 % interval; "" without a read. */
export function avoided({ without, done }: Totals): string {
  if (without === 0) return "";
  const [low, high] = interval(done, without);
  return `${saved(1 - done / without)} avoided (95 % interval ${saved(1 - high)} to ${saved(1 - low)})`;
}

export function sum<T>(items: T[], value: (one: T) => number): number {
  return items.reduce((total, one) => total + value(one), 0);
}
