// Keys as people type them.

/** A decimal number as the hex of 8 bytes, big-endian; "" if it is none. */
export function eightBytes(text: string): string {
  if (!/^\d{1,20}$/.test(text.trim())) return "";
  const value = BigInt(text.trim());
  return value < 1n << 64n ? value.toString(16).padStart(16, "0") : "";
}
