// Numbers as text.

const plain = new Intl.NumberFormat("en-US");

/** 1234567 -> "1,234,567" */
export function integer(value: number): string {
  return plain.format(Math.round(value));
}

/** A number and its noun: `count(1, "block")` is "1 block". */
export function count(value: number, noun: string, plural = `${noun}s`): string {
  return `${integer(value)} ${value === 1 ? noun : plural}`;
}

/** Bytes in the largest fitting unit: "512 bytes", "4.0 KiB". */
export function bytes(value: number): string {
  if (value < 1024) return count(value, "byte");
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let size = value / 1024;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size >= 100 ? integer(size) : size.toFixed(1)} ${units[unit]}`;
}

/** What index or filters take, in all, by key and by block, as lsmkv inspect tells it. */
export function taken(size: number, of: { entry_count: number; block_count: number }): string {
  const ofBlock = size / Math.max(1, of.block_count);
  return (
    `${bytes(size)}, ${(size / Math.max(1, of.entry_count)).toFixed(2)} bytes a key, ` +
    `${ofBlock.toFixed(2)} (${integer(8 * ofBlock)} bits) a block`
  );
}

/** A rate as a percentage with three significant digits; "unknown" for null. */
export function percent(rate: number | null): string {
  if (rate === null) return "unknown";
  if (rate === 0 || rate === 1) return `${100 * rate} %`;
  return `${significant(100 * rate, 3)} %`;
}

/** The 95 % interval of a share of independent trials (Wilson's). */
export function interval(hits: number, trials: number): [number, number] {
  const z = 1.96;
  const middle = hits + z ** 2 / 2;
  const half = z * Math.sqrt((hits * (trials - hits)) / trials + z ** 2 / 4);
  const ends = [(middle - half) / (trials + z ** 2), (middle + half) / (trials + z ** 2)] as const;
  return [Math.max(0, ends[0]), Math.min(1, ends[1])];
}

/** A share of what was saved: 0.99008 -> "99.008 %", with digits enough to tell 99.9 from 99.99. */
export function saved(share: number): string {
  if (share <= 0 || share >= 1) return `${100 * share} %`;
  const digits = Math.min(6, Math.max(1, Math.ceil(-Math.log10(1 - share) - 1e-9)));
  return `${(100 * share).toFixed(digits)} %`;
}

/** A number with so many significant digits, without exponent. */
export function significant(value: number, digits: number): string {
  if (value === 0) return "0";
  const places = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value))));
  return Number(value.toFixed(Math.min(20, places))).toLocaleString("en-US", {
    maximumFractionDigits: Math.min(20, places),
  });
}

/** Milliseconds in a readable unit. */
export function duration(ms: number): string {
  if (ms === 0) return "0 ms";
  if (ms < 1000) return `${significant(ms, 3)} ms`;
  if (ms < 120_000) return `${significant(ms / 1000, 3)} s`;
  return `${significant(ms / 60_000, 3)} min`;
}

/** A time since 1970 as local date and time. */
export function date(seconds: number | null): string {
  if (seconds === null) return "unknown";
  return new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 19).concat(" UTC");
}
