// A filter's bits as a picture, and its answer in words.

import { MARK_INK } from "./colour";
import type { Filter, FilterStep } from "./contract";
import { h } from "./dom";
import { count, integer } from "./format";
import { bitsOf } from "./model";
import { themed } from "./theme";

const WIDTH_PX = 320;
const MARGIN_PX = 8;
const HASH_PX = 34; // room above for the key's hash, from which lines run to its bits

/** The bits of a filter; those that a lookup asked for are marked. */
export function raster(filter: Filter, asked: FilterStep | null): HTMLElement {
  const bits = bitsOf(filter);
  const columns = Math.max(
    16,
    Math.min(128, 2 ** Math.ceil(Math.log2(Math.sqrt(bits.length) * 1.6))),
  );
  const size = Math.max(2, Math.floor(WIDTH_PX / columns));
  const rows = Math.ceil(bits.length / columns);
  const canvas = h("canvas", { role: "img", class: "raster" });
  const ratio = Math.max(1, devicePixelRatio || 1);
  const wide = columns * size + 2 * MARGIN_PX;
  canvas.width = wide * ratio;
  const isOfBits = asked !== null && asked.probes.length > 0;
  const top = isOfBits ? HASH_PX : 0;
  canvas.height = (rows * size + 2 * MARGIN_PX + top) * ratio;
  canvas.style.setProperty("--wide", `${wide}px`);
  const text = bitsInWords(filter, bits, asked);
  canvas.setAttribute("aria-label", asked ? `${text} ${answerInWords(asked)}` : text);
  const context = canvas.getContext("2d");
  if (context) {
    context.scale(ratio, ratio);
    context.translate(MARGIN_PX, MARGIN_PX + top);
    const [on, off] = [themed("--set"), themed("--unset")];
    const gap = size > 3 ? 1 : 0;
    for (const [shade, value] of [
      [off, 0],
      [on, 1],
    ] as const) {
      context.fillStyle = shade;
      bits.forEach((bit, i) => {
        if (bit !== value) return;
        const [x, y] = [(i % columns) * size, Math.floor(i / columns) * size];
        context.fillRect(x, y, size - gap, size - gap);
      });
    }
    const shown = (asked?.probes ?? []).filter((probe) => probe < bits.length);
    const placeOf = (probe: number): [number, number] => [
      (probe % columns) * size + (size - gap) / 2,
      Math.floor(probe / columns) * size + (size - gap) / 2,
    ];
    if (isOfBits) fan(context, shown.map(placeOf), (columns * size) / 2);
    for (const probe of shown) {
      const isUnset = asked?.unset_probes.includes(probe) ?? false;
      ring(context, ...placeOf(probe), Math.max(4, size * 0.75), isUnset);
    }
  }
  return h("figure", {}, canvas, h("figcaption", {}, text));
}

/** The key's hash above the bits, and a line from it to each of them. */
function fan(context: CanvasRenderingContext2D, places: [number, number][], middle: number): void {
  context.strokeStyle = context.fillStyle = themed("--ink");
  context.lineWidth = 0.75;
  context.beginPath();
  for (const [x, y] of places) {
    context.moveTo(middle, 18 - HASH_PX);
    context.lineTo(x, y);
  }
  context.stroke();
  context.font = "12px system-ui, sans-serif";
  context.textAlign = "center";
  context.fillText("the key's hash", middle, 14 - HASH_PX);
}

/** A circle round a bit that is set, a square round one that is not. */
function ring(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  radius: number,
  isUnset: boolean,
): void {
  context.beginPath();
  if (isUnset) context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
  else context.arc(x, y, radius, 0, 2 * Math.PI);
  for (const [colour, width] of [
    [MARK_INK, 5],
    ["#ffffff", 4],
    [isUnset ? themed("--ink") : themed("--set"), 2.5],
  ] as const) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.stroke();
  }
}

/** How many bits there are, which of them the picture shows, and what its marks mean. */
function bitsInWords(filter: Filter, bits: Uint8Array, asked: FilterStep | null): string {
  const whose = filter.block === null ? "The table's filter: " : "";
  const set = bits.reduce((sum, bit) => sum + bit, 0);
  const share = ((100 * set) / Math.max(1, bits.length)).toFixed(1);
  const isPart = filter.shown_bits < filter.bit_count;
  const part = isPart ? `, the first ${integer(filter.shown_bits)} shown` : "";
  const text = `${whose}${integer(filter.bit_count)} bits${part}; ${integer(set)} set (${share} %).`;
  if (!asked || asked.probes.length === 0) return text;
  const within = asked.probes.filter((probe) => probe < bits.length).length;
  if (within === 0) return `${text} The key's bits lie beyond the part shown.`;
  const lie = isPart ? ` ${count(within, "bit")} of the key's ${asked.probes.length} shown.` : "";
  return `${text}${lie} ○ asked and set, □ asked and not set.`;
}

/** What a filter of single bits does not show: how other filters answer; "" for others. */
export function kindInWords(filter: { policy: string; parameter: number }): string {
  if (filter.policy === "ribbon")
    return (
      `A ribbon has no bit for a single key: in each of its ${filter.parameter} columns, the XOR of the ` +
      "bits that the key's hash selects must equal one bit of the key's fingerprint."
    );
  if (filter.policy === "grafite")
    return (
      "A Grafite filter is an ascending list of codes: the key may be there if its code is in the list, " +
      "and a range of keys if a code of it is."
    );
  return "";
}

/** A filter's answer in words: by the key's bits, or by the way of its kind. */
export function answerInWords(step: FilterStep): string {
  if (step.was_learnt) return "The key is in the list of keys that the filter learnt to deny: no.";
  if (step.probes.length > 0) return probesInWords(step);
  const kind = kindInWords({ policy: step.policy, parameter: step.probe_count });
  if (!kind) return `The filter says ${step.verdict}.`;
  return `${kind} ${step.verdict === "no" ? "It does not: no." : "It does: maybe."}`;
}

/** The key's bits in words: which are set, and which not. */
function probesInWords(step: FilterStep): string {
  const bits = step.probes.map(integer).join(", ");
  if (step.unset_probes.length === 0) return `The key's bits ${bits} are all set: maybe.`;
  const unset = step.unset_probes.map(integer).join(", ");
  const verb = step.unset_probes.length === 1 ? "is" : "are";
  return `The key's bits are ${bits}; ${unset} ${verb} not set: no.`;
}
