// lsmkv's hash of a key, and the bits of a Bloom filter that it selects, as lsmkv/filters has them.

const WORD = (1n << 64n) - 1n;
const MASK_63 = (1n << 63n) - 1n;
const MULTIPLIER = 0x1e3779b97f4a7c15n;
const C1 = 0x87c37b91114253d5n;
const C2 = 0x4cf5ad432745937fn;

function turned(x: bigint, by: bigint): bigint {
  return ((x << by) | (x >> (64n - by))) & WORD;
}

function mixed(x: bigint, from: bigint, by: bigint, to: bigint): bigint {
  return (turned((x * from) & WORD, by) * to) & WORD;
}

function finished(x: bigint): bigint {
  const half = ((x ^ (x >> 33n)) * 0xff51afd7ed558ccdn) & WORD;
  const most = ((half ^ (half >> 33n)) * 0xc4ceb9fe1a85ec53n) & WORD;
  return most ^ (most >> 33n);
}

/** The low 63 bits of MurmurHash3 x64-128 with seed 0. */
export function hashOf(key: Uint8Array): bigint {
  const whole = key.length - (key.length % 16);
  const padded = new Uint8Array(whole + 16); // what is left of the key, and zeros
  padded.set(key);
  const words = new DataView(padded.buffer);
  let [first, second] = [0n, 0n];
  for (let at = 0; at <= whole; at += 16) {
    first ^= mixed(words.getBigUint64(at, true), C1, 31n, C2);
    if (at === whole) second ^= mixed(words.getBigUint64(at + 8, true), C2, 33n, C1);
    else {
      first = ((turned(first, 27n) + second) * 5n + 0x52dce729n) & WORD;
      second ^= mixed(words.getBigUint64(at + 8, true), C2, 33n, C1);
      second = ((turned(second, 31n) + first) * 5n + 0x38495ab5n) & WORD;
    }
  }
  const size = BigInt(key.length);
  first = ((first ^ size) + (second ^ size)) & WORD;
  second = (first + (second ^ size)) & WORD;
  return (finished(first) + finished(second)) & MASK_63;
}

/** The bits of a filter of `bitCount` bits that a key sets, or asks for. */
export function bitsOfKey(key: Uint8Array, bitCount: number, probes: number): number[] {
  let hash = hashOf(key);
  return Array.from({ length: probes }, () => {
    hash = (hash * MULTIPLIER) & MASK_63;
    return Number(((hash >> 31n) * BigInt(bitCount)) >> 32n);
  });
}
