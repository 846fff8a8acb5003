// Starts the page: reads its data, makes the views, and follows a live store.

import { App } from "./app";
import type { Page, Pulse } from "./contract";
import { button, fill, h } from "./dom";
import { exercises } from "./exercises";
import { bytes, count, date, integer } from "./format";
import { HeroView } from "./hero";
import { Lecture } from "./lecture";
import { placeIn } from "./links";
import { LookupView } from "./lookup";
import { MapView } from "./map";
import { VERSION } from "./model";
import { savePicture } from "./picture";
import { ProgramView } from "./program";
import { SandboxView } from "./sandbox";
import { withArticle } from "./score";
import { SelectionView } from "./selection";
import { Server } from "./server";
import { choose, isDark } from "./theme";
import { TimeView } from "./time";
import { ToyView } from "./toy";
import { WhatIfView } from "./whatif";

/** The page's data: JSON, compressed, in base64. */
async function read(): Promise<Page> {
  const text = document.getElementById("data")?.textContent ?? "";
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(unpacked).json()) as Page;
}

function start(root: HTMLElement, page: Page): void {
  if (page.version !== VERSION) {
    fill(root, h("p", {}, `This page reads data of version ${VERSION}, not ${page.version}.`));
    return;
  }
  const app = new App(page, page.source.is_live ? new Server() : null);
  app.begin();
  const map = new MapView(app);
  const lookups = new LookupView(app);
  const selection = new SelectionView(app);
  const whatIf = new WhatIfView(app);
  const time = new TimeView(app);
  const views = { lookups, whatIf, sandbox: new SandboxView(), toy: new ToyView() };
  const lecture = new Lecture(app, views);
  const embed = new URLSearchParams(location.search).get("embed");
  if (embed === "lookup" || embed === "map") document.body.dataset.embed = embed;
  fill(
    root,
    header(app, lecture),
    new HeroView(app, lookups).element,
    lecture.element,
    h(
      "main",
      {},
      new ProgramView(app).element,
      h("div", { class: "left" }, map.element, selection.element),
      h("div", { class: "right" }, lookups.element, lecture.proof),
      lecture.cost,
      whatIf.element,
      time.element,
      views.sandbox.element,
      views.toy.element,
      exercises(app),
    ),
    footer(page),
  );
  const go = (): void => {
    const { scene, key, p } = placeIn(location.hash);
    if (p !== undefined) whatIf.chooseNearest(Number(p));
    if (key !== undefined) void lookups.find(key, "text");
    if (scene !== undefined) lecture.start(Number(scene) || 0);
  };
  addEventListener("hashchange", go);
  go();
  if (app.server) follow(app, app.server);
}

function header(app: App, lecture: Lecture): HTMLElement {
  const numbers = h("span", { class: "numbers" });
  const live = h("span", { class: "live", hidden: !app.server }, "live");
  app.watch((state, before) => {
    if (state.model !== before.model || state.pulse !== before.pulse || state === before)
      fill(numbers, inShort(state.model.page));
  });
  const theme = button("Dark or light", () => choose(isDark() ? "light" : "dark"));
  const { source } = app.state.model.page;
  return h(
    "header",
    {},
    h(
      "div",
      {},
      h("h1", {}, source.name, " ", live, " ", numbers),
      h("p", { class: "intro" }, problem(app.state.model.page)),
    ),
    h(
      "div",
      { class: "tools" },
      button("Lecture", () => lecture.start(), { title: "nine scenes; key l" }),
      button("Save picture", () => void savePicture(source.name)),
      theme,
    ),
  );
}

/** Why a read is worth avoiding. */
function problem({ devices }: Page): string {
  const times = devices.slice(0, 2).map((one) => `${one.read_ms} ms from ${withArticle(one.name)}`);
  return `A read takes ${times.join(", ")} (data sheets).`;
}

function inShort({ map }: Page): string {
  const inMemory = map.memtable_key_counts.reduce((sum, n) => sum + n, 0);
  const parts: string[] = [];
  if (map.entry_count > 0)
    parts.push(
      `${count(map.entry_count, "entry", "entries")} in ${count(map.table_count, "table")} and ` +
        `${count(map.block_count, "block")}, ${bytes(map.size_bytes)}`,
    );
  if (inMemory > 0) parts.push(`${count(inMemory, "key")} in memtables`);
  return parts.join("; ");
}

function footer(page: Page): HTMLElement {
  const { source } = page;
  const notes = h("ul");
  const made = `Read on ${date(source.made_at_s)} from ${source.path} by lsmkv ${source.lsmkv_version}.`;
  const erred = page.lookups.filter((one) => one.kind === "false positive").length;
  const tried = `Of ${count(page.lookups_tried, "key")} tried, ${integer(erred)} shown are false positives.`;
  for (const note of [made, page.lookups_tried > 0 && tried, ...page.omitted])
    if (note) notes.append(h("li", {}, note));
  return h("footer", {}, notes);
}

/** Keeps a live page up to date with what other processes write. */
function follow(app: App, server: Server): void {
  let revision = app.state.model.page.revision;
  let isFetching = false;
  const banner = h("p", { class: "failure banner", role: "status", hidden: true });
  document.body.prepend(banner);
  const tell = (problem: string | null): void => {
    banner.hidden = problem === null;
    banner.textContent = problem ?? "";
  };
  const heard = async (pulse: Pulse): Promise<void> => {
    tell(pulse.failure === null ? null : `The store cannot be read now: ${pulse.failure}`);
    // Memtables that were flushed go together with the map that has their tables.
    app.set({ program: pulse.program });
    app.count(pulse.stats, pulse.revision === revision ? pulse.memtable_key_counts : undefined);
    if (pulse.revision === revision || isFetching) return;
    isFetching = true;
    try {
      const fresh = await server.page();
      revision = fresh.revision;
      app.follow(fresh);
    } catch (error) {
      tell(`The fresh map did not come: ${error instanceof Error ? error.message : error}`);
    } finally {
      isFetching = false;
    }
  };
  server.listen(
    (pulse) => void heard(pulse),
    () => tell("The connection to lsmkv explore is lost; trying again."),
  );
}

const root = document.getElementById("app");
if (root) void read().then((page) => start(root, page));
