// Paints the map on its canvas.

import { MARK_INK, MARKS } from "./colour";
import type { Lookup } from "./contract";
import { significant } from "./format";
import { item } from "./items";
import { tickTexts } from "./keys";
import { inShort } from "./marks";
import { type Cell, type Lane, type Mark, type Model, markOf } from "./model";
import { firstFrom, labelsOf, PAD_PX, type Row, yOf } from "./places";
import type { Shading } from "./shades";
import { themed } from "./theme";

const NAMED_PX = 90; // cells at least this wide show their first key
const LEAST_MARK_PX = 7;

/** The geometry of one picture.  Across goes x = shift + stretch * place, for places from 0 to 1. */
export interface Sheet {
  context: CanvasRenderingContext2D;
  ratio: number; // device pixels per pixel
  width: number;
  height: number;
  labels: number; // width of the names of levels
  laneHeight: number;
  gap: number;
  em: number; // size of text
  shift: number;
  stretch: number;
}

export function laneAt(sheet: Sheet, y: number): number {
  return Math.floor((y - PAD_PX) / (sheet.laneHeight + sheet.gap));
}

/** The height that lanes of the sheet's measures need. */
export function heightFor(lanes: number, laneHeight: number, gap: number, em: number): number {
  return lanes * (laneHeight + gap) + PAD_PX + 1.5 * em;
}

export interface Shown {
  model: Model;
  rows: Row[];
  shading: Shading;
  selected: Cell | null;
  lookup: Lookup | null;
  runs: number; // of the lookup's runs, so many are shown
  isFaint: boolean; // whether the way of the lookup stands out
}

export function paint(sheet: Sheet, shown: Shown): void {
  const { context, ratio, width, height, labels } = sheet;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.save();
  context.beginPath();
  context.rect(labels, 0, width - labels, height);
  context.clip();
  context.globalAlpha = shown.isFaint ? 0.7 : 1;
  shown.rows.forEach((row, lane) => {
    paintRow(sheet, row, shown.shading, lane);
  });
  context.globalAlpha = 1;
  const told = toldLanes(shown);
  shown.rows.forEach((row, at) => {
    if (!told.has(at)) paintNames(sheet, row, item(shown.model.lanes, at));
  });
  paintDamage(sheet, shown);
  if (shown.lookup) paintLookup(sheet, shown, shown.lookup);
  if (shown.selected) outline(sheet, shown, shown.selected, themed("--mark"), 3);
  context.restore();
  paintLabels(sheet, shown);
}

/** The lanes that show the reason of a lookup's step: they have no room for names. */
function toldLanes({ lookup, model, runs }: Shown): Set<number> {
  const told = lookup?.runs.slice(0, Math.max(0, runs)) ?? [];
  return new Set(told.map((run) => model.laneOf(run, lookup?.position ?? 0)));
}

function paintRow(sheet: Sheet, row: Row, shading: Shading, lane: number): void {
  const { context, shift, stretch, laneHeight, width } = sheet;
  const { from, to } = row;
  const shades = item(shading.lanes, lane);
  const top = yOf(sheet, lane);
  const end = from.length;
  let last = -1;
  const edges: number[] = [];
  let at = firstFrom(row, (sheet.labels - shift) / stretch);
  while (at < end) {
    const left = shift + stretch * (from[at] as number);
    if (left > width) break;
    let right = shift + stretch * (to[at] as number);
    let shade = shades[at] as number;
    // Of the cells within one pixel, the one with the highest value shows.
    while (at + 1 < end) {
      const next = shift + stretch * (to[at + 1] as number);
      if (next > left + 1) break;
      at += 1;
      right = next;
      if ((shades[at] as number) > shade) shade = shades[at] as number;
    }
    if (shade !== last) {
      context.fillStyle = shading.palette[shade] as string;
      last = shade;
    }
    const wide = right - left;
    context.fillRect(left, top, Math.max(1, wide), laneHeight);
    if (wide > 6) edges.push(right);
    at += 1;
  }
  // A thin line between blocks: a gap would look like keys that no block spans.
  context.fillStyle = themed("--edge");
  for (const edge of edges) context.fillRect(edge - 0.5, top, 1, laneHeight);
  context.fillStyle = themed("--ink");
  for (const table of row.tables) {
    const left = shift + stretch * (from[table] as number);
    if (left > width) break;
    context.fillRect(left, top - 2, 1.5, laneHeight + 4); // a table begins
  }
}

/** Hatches the cells with a damaged block. */
function paintDamage(sheet: Sheet, shown: Shown): void {
  const { context, laneHeight } = sheet;
  for (const { table, block } of shown.model.page.damage) {
    const cell = shown.model.cellOf(table, block);
    if (!cell) continue;
    const [left, wide] = across(sheet, shown, cell, LEAST_MARK_PX);
    const top = yOf(sheet, cell.lane);
    context.save();
    context.beginPath();
    context.rect(left, top, wide, laneHeight);
    context.clip();
    context.fillStyle = themed("--ground");
    context.fillRect(left, top, wide, laneHeight);
    context.strokeStyle = themed("--wrong");
    context.lineWidth = 2;
    for (let x = left - laneHeight; x < left + wide; x += 6) {
      context.beginPath();
      context.moveTo(x, top + laneHeight);
      context.lineTo(x + laneHeight, top);
      context.stroke();
    }
    context.restore();
    outline(sheet, shown, cell, themed("--wrong"), 2);
  }
}

/** The first keys of wide cells.  At most a few dozen are so wide. */
function paintNames(sheet: Sheet, row: Row, { cells }: Lane): void {
  const { context, shift, stretch, width, labels } = sheet;
  if (stretch * longest(row) < NAMED_PX) return;
  context.font = `${sheet.em}px ui-monospace, monospace`;
  context.textBaseline = "middle";
  context.lineWidth = 3;
  context.strokeStyle = themed("--ground");
  context.fillStyle = themed("--ink");
  for (let at = firstFrom(row, (labels - shift) / stretch); at < cells.length; at++) {
    const left = shift + stretch * (row.from[at] as number);
    if (left > width) return;
    const wide = stretch * ((row.to[at] as number) - (row.from[at] as number));
    if (wide <= NAMED_PX) continue;
    const cell = item(cells, at);
    const text = `${cell.firstBlock} ${item(cell.table.cells.from_key, cell.at)}`;
    const x = Math.max(left, labels) + 5;
    const y = yOf(sheet, cell.lane) + sheet.laneHeight / 2;
    context.save();
    context.beginPath();
    context.rect(left, 0, wide, sheet.height);
    context.clip();
    context.strokeText(text, x, y);
    context.fillText(text, x, y);
    context.restore();
  }
}

/** The widest of a row's cells, 0 to 1. */
const widest = new WeakMap<Row, number>();
function longest(row: Row): number {
  let found = widest.get(row);
  if (found === undefined) {
    found = row.from.reduce((most, from, at) => Math.max(most, (row.to[at] as number) - from), 0);
    widest.set(row, found);
  }
  return found;
}

/** A cell's left edge and width in pixels. */
function across(sheet: Sheet, shown: Shown, cell: Cell, least: number): [number, number] {
  const row = item(shown.rows, cell.lane);
  const left = sheet.shift + sheet.stretch * item(row.from, cell.index);
  const right = sheet.shift + sheet.stretch * item(row.to, cell.index);
  const missing = Math.max(0, least - (right - left));
  return [left - missing / 2, right - left + missing];
}

function outline(sheet: Sheet, shown: Shown, cell: Cell, colour: string, line: number): void {
  const [left, wide] = across(sheet, shown, cell, LEAST_MARK_PX);
  sheet.context.strokeStyle = colour;
  sheet.context.lineWidth = line;
  sheet.context.strokeRect(left, yOf(sheet, cell.lane), wide, sheet.laneHeight);
}

/** The first runs of the lookup: a line at the key, and each block's mark with its reason. */
function paintLookup(sheet: Sheet, shown: Shown, lookup: Lookup): void {
  const { context, laneHeight } = sheet;
  const { model } = shown;
  const runs = lookup.runs.slice(0, Math.max(0, shown.runs));
  const lanes = runs.map((run) => model.laneOf(run, lookup.position));
  const at = sheet.shift + sheet.stretch * lookup.position;
  const lowest = Math.max(-1, ...lanes);
  context.strokeStyle = themed("--ink");
  context.lineWidth = Math.max(1.5, sheet.em / 8);
  context.setLineDash([5, 3]);
  context.beginPath();
  context.moveTo(at, 0);
  context.lineTo(at, lowest < 0 ? 0 : yOf(sheet, lowest) + laneHeight / 2);
  context.stroke();
  context.setLineDash([]);
  runs.forEach((run, i) => {
    const lane = item(lanes, i);
    if (lane < 0) return; // compacted away since
    const mark = markOf(run);
    const cell = run.spanning_block === null ? undefined : model.cellFor(run, lookup.position);
    let centre = at;
    if (cell) {
      const [left, wide] = across(sheet, shown, cell, LEAST_MARK_PX);
      context.fillStyle = themed(MARKS[mark].colour);
      context.fillRect(left, yOf(sheet, lane), wide, laneHeight);
      outline(sheet, shown, cell, MARK_INK, 1.5);
    }
    const middle = yOf(sheet, lane) + laneHeight / 2;
    const radius = Math.max(6, Math.min(0.42 * laneHeight, 0.9 * sheet.em, 24));
    const [first, last] = [sheet.labels + radius + 2, sheet.width - radius - 2];
    if (centre >= sheet.labels && centre <= sheet.width)
      centre = Math.max(first, Math.min(last, centre)); // whole, also at an end of the map
    sign(sheet, mark, centre, middle, radius);
    if (laneHeight >= sheet.em + 2) reason(sheet, inShort(run), centre, middle, radius + 4);
  });
}

function sign(sheet: Sheet, mark: Mark, x: number, y: number, radius: number): void {
  const { context } = sheet;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = themed(MARKS[mark].colour);
  context.fill();
  context.lineWidth = 3;
  context.strokeStyle = "#ffffff";
  context.stroke();
  context.lineWidth = 1.5;
  context.strokeStyle = MARK_INK;
  context.stroke();
  context.fillStyle = MARK_INK;
  context.font = `bold ${1.35 * radius}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(MARKS[mark].sign, x, y + 0.5);
  context.textAlign = "start";
}

/** Text beside a sign, on whichever side it fits. */
function reason(sheet: Sheet, text: string, x: number, y: number, away: number): void {
  const { context, em } = sheet;
  context.font = `600 ${em}px system-ui, sans-serif`;
  const wide = context.measureText(text).width;
  const isLeft = x + away + wide + 10 > sheet.width;
  const left = isLeft ? x - away - wide - 8 : x + away;
  if (isLeft && left < sheet.labels) return; // no room on either side
  context.globalAlpha = 0.92;
  context.fillStyle = themed("--ground");
  context.fillRect(left, y - 0.65 * em, wide + 8, 1.3 * em);
  context.globalAlpha = 1;
  context.fillStyle = themed("--ink");
  context.textBaseline = "middle";
  context.fillText(text, left + 4, y + 0.5);
}

function paintLabels(sheet: Sheet, shown: Shown): void {
  const { context, em, labels, width, stretch } = sheet;
  const { lanes } = shown.model;
  context.fillStyle = themed("--soft");
  context.font = `${em}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  for (const { text, x, y } of labelsOf(sheet, lanes)) context.fillText(text, x, y);
  context.textBaseline = "bottom";
  const share = (width - labels) / stretch;
  if (lanes.length === 0) return;
  const text = share < 0.9999 ? `keys (${significant(100 * share, 3)} %)` : "keys";
  context.fillText(text, 0, sheet.height);
  paintAxis(sheet, shown);
}

/** Keys along the lower edge. */
function paintAxis(sheet: Sheet, shown: Shown): void {
  const { context, em, labels, width, shift, stretch } = sheet;
  const count = Math.max(2, Math.min(6, Math.floor((width - labels) / (11 * em))));
  const places = Array.from({ length: count }, (_, at) => {
    const x = labels + ((width - labels - 1) * at) / (count - 1);
    return { x, place: (x - shift) / stretch };
  });
  const texts = tickTexts(places.map(({ place }) => keyAt(shown, place, 2 / stretch)));
  context.font = `${em}px ui-monospace, monospace`;
  places.forEach(({ x }, at) => {
    if (at > 0 && texts[at] === texts[at - 1]) return;
    context.fillRect(x - 0.5, sheet.height - 1.5 * em, 1, 4);
    context.textAlign = at === 0 ? "start" : at === count - 1 ? "end" : "center";
    context.fillText(texts[at] ?? "", x, sheet.height);
  });
  context.textAlign = "start";
}

/** The key at a place: the first one of the block there, in the run that has most there; `near` its end, a
    run's last one. */
function keyAt({ model, rows }: Shown, place: number, near: number): string {
  let best = "";
  let narrowest = Number.POSITIVE_INFINITY;
  rows.forEach((row, lane) => {
    const { cells } = item(model.lanes, lane);
    const at = Math.min(firstFrom(row, place), cells.length - 1);
    const cell = cells[at];
    if (!cell) return;
    const isLast = place > cell.end - near && at === cells.length - 1;
    const away = Math.abs((isLast ? cell.end : cell.start) - place);
    if (away >= narrowest) return;
    narrowest = away;
    best = item(isLast ? cell.table.cells.to_key : cell.table.cells.from_key, cell.at);
  });
  return best;
}
