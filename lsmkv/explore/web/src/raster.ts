// A filter's bits as a picture.

import { themed } from "./colour";
import type { Filter, FilterStep } from "./contract";
import { h } from "./dom";
import { integer } from "./format";
import { bitsOf } from "./model";

const WIDTH_PX = 320;

/** The bits of a filter; those that a lookup asked for are ringed. */
export function raster(filter: Filter, asked: FilterStep | null): HTMLElement {
  const bits = bitsOf(filter);
  const columns = Math.max(
    16,
    Math.min(128, 2 ** Math.ceil(Math.log2(Math.sqrt(bits.length) * 1.6))),
  );
  const size = Math.max(2, Math.floor(WIDTH_PX / columns));
  const rows = Math.ceil(bits.length / columns);
  const set = bits.reduce((sum, bit) => sum + bit, 0);
  const canvas = h("canvas", { role: "img", class: "raster" });
  const ratio = Math.max(1, devicePixelRatio || 1);
  const margin = 6;
  canvas.width = (columns * size + 2 * margin) * ratio;
  canvas.height = (rows * size + 2 * margin) * ratio;
  canvas.style.setProperty("width", `${columns * size + 2 * margin}px`);
  const text =
    `${integer(filter.bit_count)} bits` +
    (filter.shown_bits < filter.bit_count
      ? `, the first ${integer(filter.shown_bits)} shown`
      : "") +
    `; ${integer(set)} set (${((100 * set) / Math.max(1, bits.length)).toFixed(1)} %)`;
  canvas.setAttribute("aria-label", asked ? `${text}. ${probesInWords(asked)}` : text);
  const context = canvas.getContext("2d");
  if (context) {
    context.scale(ratio, ratio);
    context.translate(margin, margin);
    const [on, off] = [themed("--high"), themed("--tint")];
    const gap = size > 3 ? 1 : 0;
    bits.forEach((bit, i) => {
      context.fillStyle = bit ? on : off;
      context.fillRect(
        (i % columns) * size,
        Math.floor(i / columns) * size,
        size - gap,
        size - gap,
      );
    });
    for (const probe of asked?.probes ?? []) {
      if (probe >= bits.length) continue;
      const isUnset = asked?.unset_probes.includes(probe);
      context.strokeStyle = isUnset ? "#d55e00" : "#009e73";
      context.lineWidth = 2.5;
      context.beginPath();
      context.arc(
        (probe % columns) * size + size / 2,
        Math.floor(probe / columns) * size + size / 2,
        Math.max(4, size * 0.75),
        0,
        2 * Math.PI,
      );
      context.stroke();
    }
  }
  return h("figure", {}, canvas, h("figcaption", {}, text));
}

/** The key's bits in words: which are set, and which not. */
export function probesInWords(step: FilterStep): string {
  if (step.probes.length === 0) return "";
  const bits = step.probes.map(integer).join(", ");
  if (step.unset_probes.length === 0) return `The key's bits ${bits} are all set: maybe.`;
  const unset = step.unset_probes.map(integer).join(", ");
  const verb = step.unset_probes.length === 1 ? "is" : "are";
  return `The key's bits are ${bits}; ${unset} ${verb} not set: no.`;
}
