// Keys as people type them.

/** A decimal number as the hex of 8 bytes, big-endian; "" if it is none. */
export function eightBytes(text: string): string {
  if (!/^\d{1,20}$/.test(text.trim())) return "";
  const value = BigInt(text.trim());
  return value < 1n << 64n ? value.toString(16).padStart(16, "0") : "";
}

/** Text with `\\xNN` for other bytes, as bytes; an Error for a backslash that starts no escape. */
export function fromText(text: string): Uint8Array {
  const bytes = text.split(/(\\\\|\\x[0-9a-f]{2})/i).flatMap((part, at): Iterable<number>[] => {
    if (at % 2 === 0 && part.includes("\\")) throw new Error("Write \\\\ for a backslash.");
    if (at % 2 === 0) return [new TextEncoder().encode(part)];
    return [[part === "\\\\" ? 0x5c : Number.parseInt(part.slice(2), 16)]];
  });
  return Uint8Array.from(bytes.flatMap((part) => [...part]));
}

export function fromHex(hex: string): Uint8Array {
  if (!/^([0-9a-f]{2})*$/i.test(hex)) throw new Error(`${hex} is no hex of whole bytes.`);
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

export function inHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
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
