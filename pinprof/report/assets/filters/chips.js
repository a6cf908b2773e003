// What the page is filtered by, in words below its header: each filter can be taken back, all of them, or the last step.

import { byId, element, makeButton } from "../core/dom.js";
import { formatNs } from "../core/format.js";
import { differs, FILTERS } from "../core/store.js";
import { MODES } from "../flame/colouring.js";

/** A button that takes something back. */
export function chipOf(label, text, takeBack) {
  const chip = makeButton("chip", undefined, `Remove: ${label} ${text}`, takeBack);
  chip.append(element("span", "faint", label), element("span", "chip-name", text), element("span", "chip-end", "×"));
  return chip;
}

// Of one kind; a pool of threads is chosen as a whole.
const MOST_CHIPS = 12;

export class FilterStrip {
  constructor(page, store) {
    Object.assign(this, { page, store });
    byId("filter-undo").addEventListener("click", () => store.undo());
    byId("filter-clear").addEventListener("click", () => store.clear(FILTERS));
    document.addEventListener("keydown", (event) => this.#shortcut(event));
    store.follow(FILTERS, (state) => this.#show(state));
  }

  #show(state) {
    const { page, store } = this;
    const row = byId("filter-chips");
    const held = [...row.children].indexOf(document.activeElement);
    const inside = byId("filters").contains(document.activeElement);
    const chips = [];
    const list = (key, label, name) => {
      if (state[key].length > MOST_CHIPS) {
        chips.push(chipOf(label, `${state[key].length} selected`, () => store.clear([key])));
        return;
      }
      for (const value of state[key]) chips.push(chipOf(label, name(value), () => store.toggle(key, value)));
    };
    if (state.range >= 0) chips.push(chipOf("range", page.ranges[state.range].name, () => store.clear(["range"])));
    if (state.span) chips.push(chipOf("time", this.#spanOf(state.span), () => store.clear(["span"])));
    if (state.opportunity >= 0) {
      const { title } = page.opportunities[state.opportunity];
      chips.push(chipOf("opportunity", title, () => store.clear(["opportunity"])));
    }
    list("threads", "thread", (thread) => page.threads[thread]);
    list("causes", "cause", (cause) => page.causes[cause].key);
    list("dsos", "module", (dso) => page.dsos[dso] || "no module");
    list("modes", "mode", (mode) => MODES[mode]);
    row.replaceChildren(...chips);
    const active = FILTERS.some((key) => differs(state, key));
    byId("filters").hidden = !active;
    document.documentElement.classList.toggle("filtered", active);
    // Who takes back one filter after the other with the keyboard stays among them; after the last, on the page.
    if (held >= 0 && chips.length) chips[Math.min(held, chips.length - 1)].focus();
    else if (inside && !active) document.querySelector("main").focus({ preventScroll: true });
  }

  #spanOf(span) {
    const [from, to] = span.map((end) => end * 1000 + (this.page.instances?.samplesStart ?? 0));
    return `${formatNs(to - from)} from ${formatNs(from)}`;
  }

  #shortcut(event) {
    if (event.target.matches?.("input, textarea, select")) return;
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z") return;
    event.shiftKey ? this.store.redo() : this.store.undo();
    event.preventDefault();
  }
}
