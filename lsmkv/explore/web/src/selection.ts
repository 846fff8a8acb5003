// What is selected on the map: a block, its table and its filter.

import type { App, State } from "./app";
import type { BlockReply, Filter, Key, Table } from "./contract";
import { facts, fill, h } from "./dom";
import { bytes, count, date, integer, percent, taken } from "./format";
import { item } from "./items";
import type { Cell } from "./model";
import { kindInWords, raster } from "./raster";

const PARAMETERS: Record<string, string> = {
  ribbon: "columns r",
  grafite: "low bits of a code",
};

export class SelectionView {
  readonly element = h("section", { class: "selection card", "aria-label": "Selection" });
  #app: App;
  #block: BlockReply | null = null; // what the server last said of the block on show
  #counted = ""; // its reads, as shown

  constructor(app: App) {
    this.#app = app;
    app.watch((state, before) => {
      if (state.selected !== before.selected || state === before) void this.#show(state);
      else if (
        state.selected &&
        (state.colours !== before.colours || counted(state.selected) !== this.#counted)
      )
        this.#fill(state.selected, this.#block, "");
    });
  }

  async #show(state: State): Promise<void> {
    const cell = state.selected;
    this.element.hidden = cell === null;
    if (!cell) {
      this.#block = null;
      fill(this.element);
      return;
    }
    const isSame =
      this.#block?.table === cell.table.number && this.#block.number === cell.firstBlock;
    if (!isSame) this.#block = null;
    this.#fill(cell, this.#block, "");
    const server = this.#app.server;
    if (!server || cell.table.table_count > 1) return;
    try {
      const reply = await server.block(cell.table.number, cell.firstBlock);
      if (reply.filter) state.model.addFilters([reply.filter]);
      if (this.#app.state.selected !== cell) return;
      this.#block = reply;
      this.#fill(cell, reply, "");
    } catch (error) {
      if (this.#app.state.selected === cell) this.#fill(cell, null, String(error));
    }
  }

  #fill(cell: Cell, block: BlockReply | null, failure: string): void {
    const table = cell.table;
    this.#counted = counted(cell);
    const filter = this.#app.state.model.filterOf(table.number, cell.firstBlock);
    fill(
      this.element,
      h("h2", {}, "Selection"),
      failure ? h("p", { class: "failure" }, failure) : null,
      ...this.#app.state.model
        .damageOf(cell)
        .map((one) =>
          h(
            "p",
            { class: "failure" },
            `Block ${integer(one.block)} is damaged: ${one.file_name} at offset ` +
              `${one.offset === null ? "unknown" : integer(one.offset)}, ${one.reason}.`,
          ),
        ),
      h(
        "div",
        { class: "columns" },
        h(
          "div",
          {},
          h("h3", {}, title(cell)),
          blockFacts(cell, block),
          ...filterParts(cell, filter),
        ),
        h(
          "div",
          {},
          h("h3", {}, table.table_count > 1 ? count(table.table_count, "table") : table.file_name),
          tableFacts(table),
        ),
      ),
    );
  }
}

function blockFacts(cell: Cell, block: BlockReply | null): HTMLElement {
  const { cells } = cell.table;
  return facts([
    ["first key", block ? keyText(block.first_key) : `from ${item(cells.from_key, cell.at)}`],
    ["last key", block ? keyText(block.last_key) : `before ${item(cells.to_key, cell.at)}`],
    ["entries", integer(item(cells.entry_count, cell.at))],
    ["stored", bytes(cell.size)],
    ...(block
      ? ([
          ["before compression", `${bytes(block.raw_bytes)}, codec ${block.codec}`],
          ["in the file", `from byte ${integer(block.offset)}`],
        ] as [string, string][])
      : []),
    ["reads that this page wasted", integer(item(cells.wasted, cell.at))],
  ]);
}

/** What lookups change of a cell. */
function counted({ table, at }: Cell): string {
  return String(item(table.cells.wasted, at));
}

function title(cell: Cell): string {
  const last = cell.firstBlock + cell.blockCount - 1;
  return cell.blockCount > 1
    ? `Blocks ${integer(cell.firstBlock)} to ${integer(last)}`
    : `Block ${integer(cell.firstBlock)}`;
}

function keyText(key: Key): string {
  return `${key.text} (${count(key.byte_count, "byte")})`;
}

function filterParts(cell: Cell, filter: Filter | undefined): HTMLElement[] {
  const heading = h(
    "h3",
    {},
    filter?.block === null ? "Filter of the table" : "Filter of the block",
  );
  if (!filter) {
    const none = cell.table.filter_kind === "none";
    const text = none
      ? "The table has no filters."
      : "This page does not hold the bits of this filter.";
    return [heading, h("p", { class: "hint" }, text)];
  }
  const first = cell.blockCount > 1 && filter.block !== null;
  return [
    heading,
    ...(first ? [h("p", { class: "hint" }, `Of block ${filter.block}, the first of these.`)] : []),
    facts([
      ["kind", filter.policy],
      ["keys n", filter.key_count === null ? "unknown" : integer(filter.key_count)],
      ["bits m", integer(filter.bit_count)],
      [PARAMETERS[filter.policy] ?? "probes k", integer(filter.parameter)],
      ["expected rate p", percent(filter.rate)],
      ...(ofTheseBits(filter) === null
        ? []
        : ([["p of these very bits", percent(ofTheseBits(filter))]] as [string, string][])),
    ]),
    raster(filter, null),
    ...(kindInWords(filter) ? [h("p", { class: "hint" }, kindInWords(filter))] : []),
  ];
}

/** How often a random key finds all its bits set, by the bits that are; null for other kinds of filter. */
function ofTheseBits(filter: Filter): number | null {
  if (filter.policy !== "bloom") return null;
  return (filter.set_bits / filter.bit_count) ** filter.parameter;
}

function tableFacts(table: Table): HTMLElement {
  return facts([
    ["smallest key", keyText(table.smallest)],
    ["largest key", keyText(table.largest)],
    ["entries", `${integer(table.entry_count)} (${count(table.tombstone_count, "deletion")})`],
    ["sequence numbers", `${integer(table.smallest_seq)} to ${integer(table.largest_seq)}`],
    ["size", `${bytes(table.size_bytes)} in ${count(table.block_count, "block")}`],
    ["before compression", `${bytes(table.raw_bytes)}, codec ${table.codec}`],
    ["index", taken(table.index_bytes, table)],
    ["filters", taken(table.filter_bytes, table)],
    ["kind of filters", `${table.filter_kind}, one per ${table.granularity}`],
    ["rate asked, exact", `${percent(table.requested_rate)}, ${percent(table.expected_rate)}`],
    ["written", date(table.written_at_s)],
  ]);
}
