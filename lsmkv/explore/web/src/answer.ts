// What a lookup came to, in the page's largest words.

import type { Lookup, Page } from "./contract";
import { count, date, integer } from "./format";
import { avoided, type Totals } from "./variants";

/** The meanings that have a colour of their own. */
export type Meaning = "avoided" | "wasted" | "found";

export interface Part {
  text: string;
  meaning?: Meaning;
}

/** How the key is there, and what looking it up took. */
export interface Answer {
  is: string;
  parts: Part[];
  notes: string[];
}

export function answerOf(lookup: Lookup): Answer {
  const due = date(lookup.expires_at_s);
  const is = {
    found: lookup.expires_at_s === null ? "is in this store." : `is in this store until ${due}.`,
    expired: `has expired, on ${due}.`,
    deleted: "was deleted from this store.",
    absent: "is not in this store.",
    unknown: lookup.runs.some((run) => run.outcome === "unread")
      ? "may be in this store."
      : "is in no table of this store.",
  }[lookup.outcome];
  const inMemory = lookup.memtables.some((step) => !["absent", "unknown"].includes(step.outcome));
  if (inMemory)
    return {
      is,
      parts: [{ text: "The memtable has it." }, { text: "0 reads.", meaning: "found" }],
      notes: [],
    };
  return {
    is,
    parts: [{ text: spanned(lookup) }, { text: asked(lookup) }, reads(lookup)].filter(
      (part) => part.text,
    ),
    notes: notes(lookup),
  };
}

function spanning(lookup: Lookup): Lookup["runs"] {
  return lookup.runs.filter((run) => run.spanning_block !== null);
}

function spanned(lookup: Lookup): string {
  const blocks = spanning(lookup).length;
  if (blocks > 0) return `${count(blocks, "block")} could hold it.`;
  return lookup.runs.length > 0
    ? "No block could hold it: the index says so."
    : "No block is on disk.";
}

function asked(lookup: Lookup): string {
  const runs = spanning(lookup);
  if (runs.length === 0) return lookup.filters_asked > 0 ? "" : "No filter was asked.";
  const no = runs.filter((run) => run.outcome === "filtered").length;
  const maybe = runs.filter((run) => run.filter?.verdict === "maybe").length;
  if (no + maybe === 0) {
    const why = runs[0]?.filter?.verdict;
    if (why === "off") return "Filters are off.";
    if (runs.length === 1) return why === "lost" ? "Its filter is damaged." : "It has no filter.";
    return why === "lost" ? "Their filters are damaged." : "They have no filters.";
  }
  if (runs.length === 1) return `Its filter said ${no ? "no" : "maybe"}.`;
  if (maybe === 0) return `${count(no, "filter")} said no.`;
  if (no === 0) return `${count(maybe, "filter")} said maybe.`;
  return `${count(no, "filter")} said no, ${integer(maybe)} maybe.`;
}

function reads(lookup: Lookup): Part {
  const done = lookup.blocks_read;
  const unread = lookup.runs.filter((run) => run.outcome === "unread").length;
  if (unread > 0) return { text: `At most ${count(unread, "read")}.` };
  if (lookup.outcome === "absent" || lookup.outcome === "unknown") {
    if (done > 0) return { text: `${count(done, "wasted read")}.`, meaning: "wasted" };
    return { text: "0 reads.", ...(lookup.filter_negatives > 0 && { meaning: "avoided" }) };
  }
  const what = {
    found: "found it",
    expired: "found it expired",
    deleted: "found the deletion",
  }[lookup.outcome];
  const wasted = lookup.runs.filter(
    (run) => run.outcome === "absent" && run.blocks.length > 0,
  ).length;
  const alsoWasted = wasted > 0 ? `, ${integer(wasted)} wasted` : "";
  return { text: `${count(done - wasted, "read")} ${what}${alsoWasted}.`, meaning: "found" };
}

function notes(lookup: Lookup): string[] {
  const parts = new Set(lookup.runs.flatMap((run) => run.filter?.part ?? []));
  const said = [...parts].map(
    (part) => `These filters hold prefixes of keys: they were asked for “${part}”.`,
  );
  if (lookup.runs.some((run) => run.filter?.holds_part))
    said.push(
      "The prefix is there, so its filter is right to say maybe; it does not know the whole key.",
    );
  const denied = lookup.runs.filter((run) => run.outcome === "filtered");
  const isByBits = denied.some((run) => (run.filter?.unset_probes.length ?? 0) > 0);
  if (denied.length > 0)
    said.unshift(
      isByBits
        ? "Where a filter said no, at least one bit that the key would set is not set."
        : "A filter is asked in memory. Its no is certain: the block cannot have the key.",
    );
  return said;
}

/** The recorded lookups of a kind in one sentence. */
export function summed(totals: Totals, things: string): string {
  const { lookups, without, done } = totals;
  const head = `${count(lookups, `${things} key`)} tried: `;
  if (without === 0) return `${head}no block could hold ${lookups === 1 ? "it" : "any of them"}.`;
  const share = things === "absent" && done < without ? `, ${avoided(totals)}` : "";
  return `${head}${count(without, "read")} without filters, ${integer(done)} with them${share}.`;
}

/** What a store without anything to look up has to tell. */
export function blank({ map }: Page): Answer {
  const inMemory = map.memtable_key_counts.reduce((total, n) => total + n, 0);
  const parts =
    map.entry_count + inMemory === 0
      ? [{ text: "This store is empty." }, { text: "There is no key to look up yet." }]
      : [
          {
            text: `${count(map.entry_count + inMemory, "entry", "entries")}, and no key of them could be drawn.`,
          },
        ];
  return { is: "", parts, notes: ["lsmkv explore --demo shows a store that is ready to try."] };
}
