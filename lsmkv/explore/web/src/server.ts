// Requests to the server of a live page.  A page in a file makes none.

import type { BlockReply, LookupReply, LookupRequest, Page, Problem, Pulse } from "./contract";
import { VERSION } from "./model";

export class Server {
  async lookUp(request: LookupRequest): Promise<LookupReply> {
    return this.#reply<LookupReply>("lookup", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(request),
    });
  }

  async block(table: number, block: number): Promise<BlockReply> {
    return this.#reply<BlockReply>(`block?table=${table}&number=${block}`);
  }

  async page(): Promise<Page> {
    return this.#reply<Page>("page.json");
  }

  /** Calls `heard` for each pulse, and `lost` when the connection breaks (the browser tries again). */
  listen(heard: (pulse: Pulse) => void, lost: () => void): void {
    const events = new EventSource("events");
    events.addEventListener("pulse", (event) => heard(JSON.parse(event.data) as Pulse));
    events.addEventListener("error", lost);
  }

  async #reply<T extends { version: number }>(path: string, init?: RequestInit): Promise<T> {
    const response = await fetch(path, init).catch(() => {
      throw new Error("lsmkv explore does not answer; it may have ended.");
    });
    const reply = (await response.json()) as T | Problem;
    if (reply.version !== VERSION)
      throw new Error("The server is of another version: reload the page.");
    if ("problem" in reply) throw new Error(reply.problem);
    return reply as T;
  }
}
