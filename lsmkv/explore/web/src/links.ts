// Links to a part of the page: #scene=3, #key=user7, #p=0.01.

export interface Place {
  scene?: string;
  key?: string;
  p?: string;
}

/** What the address names. */
export function placeIn(hash: string): Place {
  return Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
}

/** Notes in the address what is on show, for whoever copies it; null takes a name out. */
export function note(change: { [name in keyof Place]: string | null }): void {
  const parts = new URLSearchParams(location.hash.replace(/^#/, ""));
  for (const [name, value] of Object.entries(change))
    if (value === null) parts.delete(name);
    else if (value !== undefined) parts.set(name, value);
  const text = parts.toString();
  // Where the page has no address of its own, as within a notebook, there is nothing to note.
  if (location.protocol !== "about:")
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
}
