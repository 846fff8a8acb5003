// The first thing on the page: what one lookup came to, in large words, and what all came to.

import { type Answer, answerOf, blank, summed } from "./answer";
import type { App, State } from "./app";
import type { Device, Lookup } from "./contract";
import { button, fill, h } from "./dom";
import { count, duration } from "./format";
import type { LookupView, Pick } from "./lookup";
import { scored, withArticle } from "./score";

const PICKS: [Pick, string][] = [
  ["absent", "An absent key"],
  ["present", "A present key"],
  ["false positive", "A false positive"],
];

export class HeroView {
  readonly element: HTMLElement;
  #answer = h("div", { class: "answer", "aria-live": "polite" });
  #totals = h("p", { class: "totals" });
  #damage = h("div", { class: "damage", role: "status" });

  constructor(app: App, lookups: LookupView) {
    this.element = h(
      "section",
      { class: "hero", "aria-label": "What this lookup cost" },
      this.#damage,
      this.#answer,
      this.#totals,
      h(
        "div",
        { class: "picks" },
        "Try ",
        ...PICKS.map(([pick, text]) =>
          button(text, () => void lookups.pick(pick), { "data-pick": pick }),
        ),
        lookups.form,
      ),
    );
    app.watch((state, before) => {
      if (state.lookup !== before.lookup || state.model !== before.model || state === before)
        this.#show(state);
    });
  }

  #show(state: State): void {
    const { model, lookup } = state;
    const { kind, totals } = scored(state);
    const answer = lookup ? answerOf(lookup) : blank(model.page);
    const lead = lookup
      ? [h("code", { class: "hero-key" }, lookup.key.text), ` ${answer.is}`]
      : [answer.is];
    const [why = "", ...more] = answer.notes;
    const price = lookup ? spared(lookup, model.page.devices[0]) : "";
    fill(
      this.#answer,
      h("p", { class: "lead" }, ...lead),
      inLargeWords(answer),
      price || why ? h("p", { class: "why" }, `${price}${why}`) : null,
    );
    if (totals.lookups > 0) more.push(summed(totals, kind));
    fill(this.#totals, more.join(" "));
    const { damage } = model.page;
    this.#damage.hidden = damage.length === 0;
    fill(
      this.#damage,
      h("b", {}, `${count(damage.length, "damaged block")}, hatched on the map: `),
      ...damage
        .slice(0, 3)
        .map((one) =>
          h("span", {}, `${one.file_name} at offset ${one.offset ?? "unknown"}: ${one.reason}. `),
        ),
      damage.length > 3 ? `and ${count(damage.length - 3, "more", "more")}.` : null,
    );
  }
}

/** What a lookup without filters would have read, and how long from a device. */
export function spared(lookup: Lookup, device: Device | undefined): string {
  const reads = lookup.reads_without_filters;
  if (!device || reads <= lookup.blocks_read) return "";
  return `Without filters: ${count(reads, "read")}, ${duration(reads * device.read_ms)} from ${withArticle(device.name)}. `;
}

/** The parts of an answer, each in the colour of its meaning. */
export function inLargeWords(answer: Answer): HTMLElement {
  return h(
    "p",
    { class: "verdict" },
    ...answer.parts.flatMap(({ text, meaning }) => [
      h("span", { class: meaning ? `is-${meaning}` : null }, text.replace(/(\d) /g, "$1\u00a0")),
      " ",
    ]),
  );
}
