// Keys as people type them.

/** A decimal number as the hex of 8 bytes, big-endian; "" if it is none. */
export function eightBytes(text: string): string {
  if (!/^\d{1,20}$/.test(text.trim())) return "";
  const value = BigInt(text.trim());
  return value < 1n << 64n ? value.toString(16).padStart(16, "0") : "";
}

const MOST_LETTERS = 12;

/** Keys for an axis: a long start that all share is cut, and so is a long end. */
export function tickTexts(keys: string[]): string[] {
  const [first = "", ...others] = keys;
  let shared = 0;
  while (shared < first.length && others.every((key) => key[shared] === first[shared])) shared += 1;
  const cut = shared > 4 && keys.some((key) => key.length > MOST_LETTERS) ? shared - 1 : 0;
  return keys.map((key) => {
    const text = cut ? `…${key.slice(cut)}` : key;
    return text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS - 1)}…` : text;
  });
}
