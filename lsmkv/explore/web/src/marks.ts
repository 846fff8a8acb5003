// What became of each run in a lookup, in words: in full, and short for the map and for lectures.

import { MARKS } from "./colour";
import type { FilterStep, RunStep } from "./contract";
import { h } from "./dom";
import { bytes, percent } from "./format";
import { type Mark, markOf } from "./model";
import { sum } from "./variants";

export function wasAsked(step: FilterStep | null): step is FilterStep {
  return step?.verdict === "no" || step?.verdict === "maybe";
}

/** A mark's sign on its colour. */
export function signed(mark: Mark): HTMLElement {
  const look = MARKS[mark];
  const sign = h("span", { class: "sign", "aria-hidden": "true" }, look.sign);
  sign.style.setProperty("background", `var(${look.colour})`);
  return sign;
}

/** What happened in one run, in the order in which it did. */
export function inWords(step: RunStep): string[] {
  const parts: string[] = [];
  if (step.outcome === "no table") return ["No table of this run spans the key: not read."];
  const filter = step.filter;
  if (filter) {
    const whose = filter.scope === "table" ? "The table's filter" : "The block's filter";
    if (filter.verdict === "none") parts.push("There is no filter.");
    else if (filter.verdict === "off") parts.push("Filters are off.");
    else if (filter.verdict === "lost") parts.push(`${whose} is damaged in every copy.`);
    else {
      const rate =
        filter.expected_rate === null || filter.verdict === "no"
          ? ""
          : `, as it does of p = ${percent(filter.expected_rate)} of absent keys`;
      const learnt = filter.was_learnt ? ", which it learnt" : "";
      const of = filter.part === null ? "" : ` of the prefix “${filter.part}”`;
      parts.push(`${whose} says ${filter.verdict}${of}${learnt}${rate}.`);
    }
  }
  if (step.outcome === "filtered")
    parts.push(
      step.spanning_bytes > 0
        ? `${bytes(step.spanning_bytes)} not read.`
        : "No read was left to spare.",
    );
  for (const block of step.blocks)
    parts.push(`Block ${block.number} read: ${bytes(block.length_bytes)}.`);
  if (step.outcome === "unread") parts.push(`The store would read ${bytes(step.spanning_bytes)}.`);
  if (step.outcome === "found") parts.push("Found.");
  if (step.outcome === "deleted") parts.push("Deleted here.");
  if (step.outcome === "expired") parts.push("Expired.");
  if (step.outcome === "absent")
    parts.push(
      filter?.holds_part
        ? "The prefix is there, the key is not."
        : step.is_false_positive
          ? "Not there: a false positive."
          : "Not there.",
    );
  return parts;
}

/** The same in four words or so. */
export function inShort(step: RunStep): string {
  const read = `${bytes(sum(step.blocks, (block) => block.length_bytes))} read`;
  switch (markOf(step)) {
    case "out of range":
      return "no table spans the key";
    case "no":
      return step.spanning_bytes > 0
        ? `filter: no, ${bytes(step.spanning_bytes)} unread`
        : "filter: no";
    case "maybe":
      return `filter: ${step.filter ? "maybe" : "not on this page"}`;
    case "false positive":
      if (step.blocks.length === 0) return "filter: maybe, but no block";
      return `${read}, wasted`;
    case "found":
      return `${step.outcome}, ${read}`;
    default:
      return `not there, ${read}`;
  }
}
