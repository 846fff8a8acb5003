// The page's colours.  Those of marks are of the palette of Okabe and Ito, which colour-blind people
// can tell apart; each mark also has a sign.

import type { Mark } from "./model";

export interface Look {
  colour: string;
  sign: string;
  text: string;
}

export const MARKS: Record<Mark, Look> = {
  "out of range": { colour: "#b4bcc4", sign: "–", text: "no table spans the key" },
  gap: { colour: "#b4bcc4", sign: "·", text: "the key lies between two blocks" },
  no: { colour: "#b4bcc4", sign: "⊘", text: "the filter said no: nothing read" },
  cached: { colour: "#f0e442", sign: "▣", text: "searched in the cache, not there" },
  read: { colour: "#e69f00", sign: "■", text: "read and searched, not there" },
  "false positive": {
    colour: "#d55e00",
    sign: "×",
    text: "searched for nothing: a false positive",
  },
  found: { colour: "#009e73", sign: "✓", text: "found" },
};

/** Dark on every mark, in both themes. */
export const MARK_INK = "#1b1f24";

/** Tones of charts: classes that the style gives a colour of 4.5:1 in both themes. */
export type Tone = "blue" | "green" | "red" | "pink" | "amber" | "grey";

export function toned(tone: Tone, more = ""): string {
  return `tone-${tone} ${more}`.trim();
}
