// What the recorded lookups cost, with filters and without, and what that takes on each kind of disk.

import type { App, State } from "./app";
import type { Device, Page } from "./contract";
import { fill, h } from "./dom";
import { bytes, count, duration, integer } from "./format";
import { item } from "./items";
import { avoided, type Totals, totalsOf, variantOf } from "./variants";

interface Row {
  element: HTMLElement;
  show: (totals: Totals) => void;
}

/** The recorded lookups of absent keys with the filters chosen; of present ones where there are no others. */
export function scored({ model, rate }: Pick<State, "model" | "rate">): {
  kind: "absent" | "present";
  totals: Totals;
} {
  const kind = model.lookupsOf("absent").length > 0 ? "absent" : "present";
  const known = model.lookupsOf(kind).filter((one) => rate === null || one.rebuilt.length > 0);
  return { kind, totals: totalsOf(known.map((one) => variantOf(one, rate))) };
}

/** What reading the filters themselves took, which no count of blocks has. */
export function loads(stats: Page["stats"]): string {
  const { filter_reads: reads = 0, filter_read_bytes: size = 0 } = stats;
  if (reads === 0) return "";
  return `Besides, the filters of all lookups here were read: ${count(reads, "read")}, ${bytes(size)}. `;
}

export class ScoreView {
  readonly element: HTMLElement;
  #title = h("h3");
  #reads = ["without", "done", "saved"].map((name) => h("td", { "data-score": name }));
  #devices = h("tbody");
  #hint = h("p", { class: "hint" });
  #rows: Row[] = [];
  #totals: Totals = { lookups: 0, without: 0, done: 0 };

  constructor(app: App) {
    const columns = ["without filters", "with", "avoided"];
    this.element = h(
      "div",
      { class: "score" },
      this.#title,
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h("tr", {}, h("td", {}), ...columns.map((text) => h("th", { scope: "col" }, text))),
          h("tr", { class: "reads" }, h("th", { scope: "row" }, "block reads"), ...this.#reads),
        ),
        this.#devices,
      ),
      this.#hint,
    );
    app.watch((state, before) => {
      if (state.model !== before.model || state === before) this.#list(state.model.page.devices);
      if (
        state.pulse !== before.pulse ||
        state.rate !== before.rate ||
        state.model !== before.model ||
        state === before
      )
        this.#show(state);
    });
  }

  /** The rows of devices; those of the same devices stay, with the focus in them. */
  #list(devices: Device[]): void {
    this.#rows = devices.map((device, at) =>
      deviceRow(device, () => item(this.#rows, at).show(this.#totals)),
    );
    const held = this.element.contains(document.activeElement) ? document.activeElement : null;
    const name = held?.getAttribute("aria-label");
    fill(this.#devices, ...this.#rows.map((row) => row.element));
    if (name) this.#devices.querySelector<HTMLElement>(`[aria-label="${name}"]`)?.focus();
  }

  #show(state: State): void {
    const { kind, totals } = scored(state);
    this.#totals = totals;
    const spared = totals.without - totals.done;
    this.#title.textContent = `${integer(totals.lookups)} ${kind} keys of this store, looked up`;
    [totals.without, totals.done, spared].forEach((reads, at) => {
      item(this.#reads, at).textContent = integer(reads);
    });
    const share = kind === "absent" && spared > 0 ? `${avoided(totals)}. ` : "";
    this.#hint.textContent = `${share}${loads(state.model.page.stats)}Times are reads by an assumed time each; change it.`;
    for (const row of this.#rows) row.show(totals);
  }
}

function deviceRow(device: Device, changed: () => void): Row {
  const input = h("input", {
    type: "number",
    min: "0",
    step: "any",
    value: device.read_ms,
    "aria-label": `milliseconds of a read from ${withArticle(device.name)}`,
    title: device.assumption,
  });
  const cells = [h("td"), h("td"), h("td")];
  input.addEventListener("input", () => {
    device.read_ms = Math.max(0, Number(input.value) || 0);
    changed();
  });
  const name = h(
    "th",
    { scope: "row" },
    device.name,
    " at ",
    input,
    " ms",
    h("small", {}, device.assumption),
  );
  return {
    element: h("tr", {}, name, ...cells),
    show: ({ without, done }) => {
      [without, done, without - done].forEach((reads, at) => {
        item(cells, at).textContent = duration(reads * device.read_ms);
      });
    },
  };
}

export function withArticle(name: string): string {
  return /^(SSD|[aeiou])/.test(name) ? `an ${name}` : `a ${name}`;
}
