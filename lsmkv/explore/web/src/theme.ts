// Light and dark: what is chosen, and the colours of the style.

const DARK = matchMedia("(prefers-color-scheme: dark)");
const known = new Map<string, string>();
const listeners: (() => void)[] = [];

/** Whether dark colours are on, by choice or by the system. */
export function isDark(): boolean {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : DARK.matches;
}

/** The value of a custom property of the style; read once for each change of colours. */
export function themed(name: string): string {
  let value = known.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    known.set(name, value);
  }
  return value;
}

/** Calls `listener` after each change of colours. */
export function onColours(listener: () => void): void {
  listeners.push(listener);
}

/** Chooses light or dark; what the system says where nothing is chosen. */
export function choose(theme: string | undefined): void {
  if (theme === undefined) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  changed();
}

function changed(): void {
  known.clear();
  for (const listener of listeners) listener();
}

DARK.addEventListener("change", changed);

// Paper is light.
let beforePrint: string | undefined;
addEventListener("beforeprint", () => {
  beforePrint = document.documentElement.dataset.theme;
  choose("light");
});
addEventListener("afterprint", () => choose(beforePrint));
