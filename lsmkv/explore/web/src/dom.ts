// Makes elements.  Text always goes in as text, never as markup: keys may contain anything.

type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined>;

/** An element with attributes and children; `on*` listeners are added by the caller. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  append(element, children);
  return element;
}

/** The same for SVG. */
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(element, attributes);
  append(element, children);
  return element;
}

function setAttributes(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined)
      element.setAttribute(name, String(value));
  }
}

function append(element: Element, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "number" ? String(child) : child);
  }
}

/** The width of a drawing in its own units: so few on a phone that its text stays legible. */
export function drawingWidth(): number {
  return innerWidth < 520 ? 380 : 560;
}

/** Replaces all children of an element. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  append(element, children);
}

/** A button that does something. */
export function button(
  text: string,
  act: () => void,
  attributes: Attributes = {},
): HTMLButtonElement {
  const made = h("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", act);
  return made;
}

/** A description list of names and values. */
export function facts(rows: [string, Child][]): HTMLDListElement {
  const list = h("dl", { class: "facts" });
  for (const [name, value] of rows) list.append(h("dt", {}, name), h("dd", {}, value));
  return list;
}
