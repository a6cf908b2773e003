// The model in a worker of its own, made from this page's script, so that no question blocks the page; where a browser
// refuses workers to local files, the same code answers in the page.

import { gunzip } from "../core/columns.js";
import { derive } from "./derive.js";
import { recycle } from "./memory.js";
import { Model } from "./model.js";
import { survey } from "./survey.js";

class Server {
  async start({ packed, layout, facts }) {
    this.model = new Model(await gunzip(packed), layout, facts);
    const { frameName, frameDso, frameKind } = this.model;
    return { frameName, frameDso, frameKind };
  }

  derive({ query, spare }) {
    recycle(spare);
    return derive(this.model, query);
  }

  survey(query) {
    return survey(this.model, query);
  }
}

/** In the worker: answer questions one after another. */
export function serve() {
  const server = new Server();
  self.addEventListener("message", async ({ data: { id, method, argument } }) => {
    const answer = await server[method](argument);
    const owned = method === "derive" ? buffers(answer) : [];
    self.postMessage({ id, answer }, owned);
  });
}

export class Engine {
  constructor(script) {
    this.waiting = new Map();
    this.asked = 0;
    this.spare = [];
    try {
      this.worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
      this.worker.addEventListener("message", ({ data: { id, answer } }) => this.#resolve(id, answer));
      this.worker.addEventListener("error", (event) => this.#fallBack(event));
    } catch {
      this.server = new Server();
    }
  }

  start(argument) {
    return this.#ask("start", argument);
  }

  derive(query) {
    const spare = this.spare.splice(0);
    return this.#ask("derive", { query, spare }, spare);
  }

  /** The memory of an answer that is no longer shown goes back with the next question. */
  release({ tables, pairs }) {
    this.spare.push(...new Set(buffers([tables, pairs])));
  }

  survey(query) {
    return this.#ask("survey", query);
  }

  async #ask(method, argument, owned = []) {
    if (this.server) return this.server[method](argument);
    this.asked += 1;
    const id = this.asked;
    return new Promise((resolve) => {
      this.waiting.set(id, { method, argument, resolve });
      this.worker.postMessage({ id, method, argument }, owned);
    });
  }

  #resolve(id, answer) {
    this.answered = true;
    this.waiting.get(id).resolve(answer);
    this.waiting.delete(id);
  }

  // A worker that never came up: what it was asked is answered here.
  async #fallBack(event) {
    if (this.answered) return;
    event.preventDefault();
    this.server = new Server();
    for (const [id, { method, argument }] of this.waiting) this.#resolve(id, await this.server[method](argument));
  }
}

// Columns change hands instead of being copied.
function buffers(value, list = []) {
  if (ArrayBuffer.isView(value)) list.push(value.buffer);
  else if (value && typeof value === "object") for (const part of Object.values(value)) buffers(part, list);
  return list;
}
