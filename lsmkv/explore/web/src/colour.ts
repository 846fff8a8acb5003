// The meanings that have a colour: everywhere the same.  base.css gives the colours, which colour-blind
// people can tell apart; each mark also has a sign.

import type { Mark } from "./model";

export interface Look {
  colour: string; // a custom property of the style
  sign: string;
  text: string;
}

export const MARKS: Record<Mark, Look> = {
  "out of range": { colour: "--aside", sign: "–", text: "no table spans the key" },
  no: { colour: "--avoided", sign: "⊘", text: "the filter said no: a read avoided" },
  maybe: { colour: "--aside", sign: "?", text: "this file does not hold the block to search" },
  read: { colour: "--wasted", sign: "■", text: "read and searched, not there: a wasted read" },
  "false positive": { colour: "--wasted", sign: "×", text: "the filter said maybe: a wasted read" },
  found: { colour: "--found", sign: "✓", text: "found" },
};

/** Dark on every mark, in both themes. */
export const MARK_INK = "#1b1f24";
