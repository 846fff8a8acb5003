// Items of lists.

/** An item that must be there. */
export function item<T>(items: ArrayLike<T>, at: number): T {
  const found = items[at];
  if (found === undefined) throw new RangeError(`no item ${at} of ${items.length}`);
  return found;
}

/** The lowest of the numbers below `count` that is `enough`, if all above it are; else `count`. */
export function lowest(count: number, enough: (at: number) => boolean): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (enough(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
