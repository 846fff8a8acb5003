// Which recorded lookup a scene of the lecture tells of, or why this store has none.

import type { Lookup } from "./contract";
import type { Model } from "./model";
import { scored } from "./score";

/** A lookup, or why there is none. */
export type Story = Lookup | string;

/** A lookup that a block could answer. */
export function spannedIn(model: Model): Story {
  return found(model, ["absent", "present"], (one) => one.reads_without_filters > 0);
}

/** A lookup of which filters avoided a read, and did not err. */
export function sparedIn(model: Model, kinds: Lookup["kind"][]): Story {
  return found(
    model,
    kinds,
    (one) => one.reads_without_filters > one.blocks_read && one.false_positives === 0,
  );
}

/** Why no read of the recorded lookups could be avoided; "" where one could. */
export function whyNoRead(model: Model): string {
  return scored({ model, rate: 0 }).totals.without > 0 ? "" : whyNoBlock(model);
}

function found(model: Model, kinds: Lookup["kind"][], fits: (one: Lookup) => boolean): Story {
  const all = kinds.flatMap((kind) => model.examples(kind));
  const spanned = all.some((one) => one.reads_without_filters > 0);
  return (
    all.find(fits) ??
    (spanned ? whyNoFilter(model) : null) ??
    (spanned ? "No filter avoided a read of the keys that were tried." : whyNoBlock(model))
  );
}

function whyNoBlock({ page }: Model): string {
  return page.map.table_count === 0
    ? "This store has no table yet: what it holds is in memory."
    : "No block could hold an absent key that was tried: the index says so, and no filter is asked.";
}

function whyNoFilter({ page }: Model): string | null {
  const filters = page.lookups.flatMap((one) => one.runs.flatMap((run) => run.filter ?? []));
  if (filters.some(({ verdict }) => verdict === "no" || verdict === "maybe")) return null;
  const verdicts = new Set(filters.map(({ verdict }) => verdict));
  if (verdicts.has("off")) return "This store was opened with its filters off.";
  return verdicts.has("none") ? "The tables of this store have no filters." : null;
}

/** A lookup as a store without filters does it. */
export function without(lookup: Story): Story {
  if (typeof lookup === "string") return lookup;
  const runs = lookup.runs.map((run) => {
    if (run.spanning_block === null) return { ...run, filter: null };
    const block = {
      number: run.spanning_block,
      offset: 0,
      length_bytes: run.spanning_bytes,
    };
    const outcome = run.outcome === "filtered" ? ("absent" as const) : run.outcome;
    return { ...run, filter: null, blocks: [block], outcome, is_false_positive: false };
  });
  return {
    ...lookup,
    runs,
    blocks_read: lookup.reads_without_filters,
    read_bytes: lookup.read_bytes_without_filters,
    filters_asked: 0,
    filter_negatives: 0,
    false_positives: 0,
  };
}
