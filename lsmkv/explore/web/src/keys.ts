// Keys as people type them.

/** A decimal number as the hex of 8 bytes, big-endian; "" if it is none. */
export function eightBytes(text: string): string {
  if (!/^\d{1,20}$/.test(text.trim())) return "";
  const value = BigInt(text.trim());
  return value < 1n << 64n ? value.toString(16).padStart(16, "0") : "";
}

const MOST_LETTERS = 12;

/** Keys for an axis, in at most a dozen letters: of a long key, those from where its neighbour differs. */
export function tickTexts(keys: string[]): string[] {
  return keys.map((key, at) => {
    if (key.length <= MOST_LETTERS) return key;
    // The first key has only a later neighbour; the same key again has the same text.
    const other =
      keys.slice(0, at).findLast((one) => one !== key) ?? keys.find((one) => one !== key);
    const shared = other === undefined ? 0 : sharedLetters(key, other);
    const text = shared > 4 ? `…${key.slice(shared - 1)}` : key;
    return text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS - 1)}…` : text;
  });
}

function sharedLetters(one: string, other: string): number {
  let shared = 0;
  while (shared < one.length && one[shared] === other[shared]) shared += 1;
  return shared;
}
