// Exercises whose answers check themselves against the store on the page.

import type { App, State } from "./app";
import { h } from "./dom";
import { scored } from "./score";

interface Exercise {
  ask: string;
  answer: (state: State) => number | undefined; // undefined where this store has none
}

const EXERCISES: Exercise[] = [
  {
    ask: "1. How many blocks could hold the absent key with which this page opens?",
    answer: ({ model }) => model.examples("absent")[0]?.reads_without_filters,
  },
  {
    ask: "2. How many bytes did the first false positive's wasted reads take?",
    answer: ({ model }) => model.examples("false positive")[0]?.read_bytes,
  },
  {
    ask: "3. How many runs did the lookup of the first present key not ask at all?",
    answer: ({ model }) => {
      const first = model.examples("present")[0];
      return first ? model.lanes.length - first.runs.length : undefined;
    },
  },
  {
    ask: "4. What p, in %, do m, n and k of the block that you chose let expect?",
    answer: ({ model, selected }) => {
      const filter = model.filterOf(selected?.table.number ?? -1, selected?.firstBlock ?? 0);
      if (!filter?.key_count || filter.policy !== "bloom") return undefined;
      const { bit_count: m, key_count: n, parameter: k } = filter;
      return 100 * (1 - (1 - 1 / m) ** (k * n)) ** k;
    },
  },
  {
    ask: "5. How many bits a key does a Bloom filter of p = 1 % take here?",
    answer: ({ model }) => {
      const data = model.page.what_if;
      const made = data?.rebuilt.find(
        (one) => one.policy === "bloom" && one.requested_rate === 0.01,
      );
      return made && data ? made.bit_count / data.key_count : undefined;
    },
  },
  {
    ask: "6. At which p, in %, is no recorded read of an absent key left for the first time?",
    answer: ({ model }) => {
      const { rates } = model.page;
      const at = rates.findIndex((_, rate) => scored({ model, rate }).totals.done === 0);
      return at < 0 ? undefined : 100 * (rates[at] ?? 0);
    },
  },
  { ask: "7. With 64 bits and ten words, which of the four k errs least?", answer: () => 4 },
  {
    ask: "8. foo and baz were added to 32 bits, and baz removed: how many of foo's 3 bits are left?",
    answer: () => 2,
  },
];
const CLOSE = 0.02; // of the answer: a number with two digits is right

/** What a typed answer is: "" before one is typed, or where there is none. */
export function judged(typed: string, answer: number | undefined): "" | "✓ right" | "✗ not yet" {
  const number = Number.parseFloat(typed.replaceAll(",", ""));
  if (Number.isNaN(number) || answer === undefined) return "";
  const most = Number.isInteger(answer) ? 0 : CLOSE * answer;
  return Math.abs(number - answer) <= most ? "✓ right" : "✗ not yet";
}

export function exercises(app: App): HTMLElement {
  const list = h("ul", { class: "exercises" });
  for (const [at, { ask, answer }] of EXERCISES.entries()) {
    const input = h("input", { id: `answer-${at + 1}`, size: 8, inputmode: "decimal" });
    const said = h("b", { role: "status" });
    input.addEventListener("input", () => {
      said.textContent = judged(input.value, answer(app.state));
      said.className = said.textContent === "✓ right" ? "is-found" : "is-wasted";
    });
    list.append(h("li", {}, h("label", { for: input.id }, ask), " ", input, " ", said));
  }
  return h("details", { class: "card" }, h("summary", {}, "Exercises that check themselves"), list);
}
