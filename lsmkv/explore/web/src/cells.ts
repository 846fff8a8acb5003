// The bits of a small filter as cells; those that a word asks for are ringed.

import { h } from "./dom";

/** Cells of bits, or of counters with their numbers; in words `label`. */
export function cells(
  values: number[],
  asked: number[],
  label: string,
  isCounted = false,
): HTMLElement {
  const row = h("span", { class: "cells", role: "img", "aria-label": label });
  for (const [bit, value] of values.entries())
    row.append(
      h(
        "i",
        { class: `${value ? "on" : "off"}${asked.includes(bit) ? " asked" : ""}` },
        isCounted && value,
      ),
    );
  return row;
}

/** 1 for each bit that is set, else 0. */
export function valuesOf(set: Set<number>, bitCount: number): number[] {
  return Array.from({ length: bitCount }, (_, bit) => (set.has(bit) ? 1 : 0));
}
