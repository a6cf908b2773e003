// The flamegraph's controls: selects, legend, chips of what is filtered or changed, path of the zoom, undo and help.

import { byId, element, makeButton, swatchEntry } from "../core/dom.js";
import { formatShare } from "../core/format.js";
import { CHANGES, FILTERS } from "../core/store.js";
import { chipOf } from "../filters/chips.js";
import { CHANGE_SCHEMES, changeLegend } from "./change.js";
import { legendOf, SCHEMES, schemesOf } from "./colouring.js";

const MOST_THREADS = 200;

export class Controls {
  constructor(panel, store) {
    Object.assign(this, { panel, store, page: panel.page });
    this.#select(
      "flame-order",
      [["weight", "heaviest first"], ...(this.page.timed ? [["time", "in order of time"]] : []), ["leaf", "leaf up"]],
      (value) => ({ order: value === "time" ? "time" : "weight", inverted: value === "leaf", zoom: [], view: null }),
    );
    this.#select(
      "flame-colour",
      Object.entries(schemesOf(this.page)).map(([key, { label }]) => [key, label]),
      (value) => ({ colour: value }),
    );
    this.#select(
      "flame-range",
      [
        [-1, "whole recording"],
        ...this.page.ranges.map(({ name, depth }, index) => [index, `${"\u00a0\u00a0".repeat(depth)}${name}`]),
      ],
      (value) => ({ range: Number(value) }),
    );
    // Threads without samples come last; they are chosen on the timeline.
    const sampled = this.page.flame.facts.threads;
    const threads = this.page.threads.map((name, index) => [index, name]).slice(0, Math.min(sampled, MOST_THREADS));
    this.#select("flame-threads", [["all", "merged"], ["split", "split"], ...threads], (value) => ({
      split: value === "split",
      threads: /^\d/.test(value) ? [Number(value)] : [],
      zoom: [],
      view: null,
    }));
    byId("flame-range").parentElement.hidden = !this.page.timed || !this.page.ranges.length;
    byId("flame-threads").parentElement.hidden = sampled < 2 || Boolean(this.page.compared);
    byId("flame-shape").addEventListener("click", () => store.set({ flame: !store.state.flame }));
    byId("flame-undo").addEventListener("click", () => store.undo());
    byId("flame-redo").addEventListener("click", () => store.redo());
    byId("flame-reset").addEventListener("click", () => store.set({ zoom: [], view: null, upper: [] }));
    byId("flame-help-open").addEventListener("click", () => this.help());
    byId("flame-help-close").addEventListener("click", () => byId("flame-help").close());
  }

  #select(id, options, patch) {
    const select = byId(id);
    for (const [value, label] of options) {
      const option = element("option", "", label);
      option.value = value;
      select.append(option);
    }
    select.addEventListener("change", () => this.store.set(patch(select.value)));
  }

  help() {
    byId("flame-help").showModal();
  }

  /** Show the state, and where it allows, the answer's weights. */
  show(state, answer) {
    byId("flame-order").value = state.inverted ? "leaf" : state.order;
    byId("flame-colour").value = state.colour;
    byId("flame-range").value = state.range;
    byId("flame-threads").value = state.split ? "split" : state.threads.length === 1 ? state.threads[0] : "all";
    byId("flame-shape").setAttribute("aria-pressed", String(state.flame));
    byId("flame-undo").disabled = !this.store.past.length;
    byId("flame-redo").disabled = !this.store.future.length;
    byId("flame-reset").disabled = !state.zoom.length && !state.view && !state.upper.length;
    const chosen = JSON.stringify([state.colour, ...[...FILTERS, ...CHANGES].map((key) => state[key])]);
    if (answer === this.answer && chosen === this.chosen) return;
    Object.assign(this, { answer, chosen });
    this.#legend(state, answer);
    this.#chips(state);
  }

  #legend(state, answer) {
    const legend = byId("flame-legend");
    if (CHANGE_SCHEMES[state.colour]) {
      legend.setAttribute("aria-label", "Colours by change");
      legend.replaceChildren(...changeLegend(state.colour).map(changeEntry));
      return;
    }
    const { facet, label } = SCHEMES[state.colour];
    const held = legend.contains(document.activeElement) ? document.activeElement.dataset.value : null;
    legend.setAttribute("aria-label", `Colours by ${label}: press one to filter by it`);
    const whole = answer.facets[facet].reduce((sum, weight) => sum + weight, 0);
    const entries = legendOf(state.colour, this.page, answer.facets, state[facet], this.panel.ranks);
    const buttons = entries.map(([value, text, title, colour]) => {
      const button = makeButton("legend-entry", undefined, title, () => this.store.toggle(facet, value));
      button.dataset.value = value;
      button.setAttribute("aria-pressed", String(state[facet].includes(value)));
      const swatch = element("span", "swatch");
      swatch.style.background = `var(${colour})`;
      const share = formatShare(answer.facets[facet][value], whole);
      button.append(swatch, element("span", "legend-name", text), element("span", "faint", share));
      return button;
    });
    legend.replaceChildren(...buttons);
    if (held !== null) legend.querySelector(`[data-value="${held}"]`)?.focus();
  }

  // One chip per change of the stacks; pressing it takes that one back. Filters stand below the page's header.
  #chips(state) {
    const { page } = this;
    const { frames } = this.panel;
    const chips = [];
    const add = (label, text, patch) => chips.push(chipOf(label, text, () => this.store.set(patch)));
    const list = (key, label, name) => {
      for (const value of state[key]) add(label, name(value), { [key]: state[key].filter((other) => other !== value) });
    };
    const home = { zoom: [], view: null };
    const nameOf = (frame) => frames.nameOf(frame);
    if (state.sandwich >= 0) {
      add("callers and callees of", nameOf(state.sandwich), { sandwich: -1, ...home, upper: [] });
    }
    if (state.focus >= 0) add("focus", nameOf(state.focus), { focus: -1, ...home });
    list("hide", "hidden", nameOf);
    list("fold", "collapsed", nameOf);
    list("modules", "collapsed", (dso) => page.dsos[dso] || "no module");
    list("drop", "dropped", nameOf);
    if (chips.length > 1) chips.push(makeButton("quiet chip", "Clear all", "", () => this.store.clear(CHANGES)));
    const row = byId("flame-chips");
    row.replaceChildren(...chips);
    row.hidden = !chips.length;
  }

  /** What the graph is restricted to, in words. */
  restrictions() {
    return [...document.querySelectorAll("#filter-chips .chip, #flame-chips .chip:not(.quiet)")].map((chip) =>
      [...chip.children]
        .slice(0, 2)
        .map((part) => part.textContent)
        .join(" "),
    );
  }

  /** The way to the zoomed function; neighbours without a symbol in one module stand as one. */
  path(table, zoomed) {
    // While the wheel turns, most turns stay in one function.
    if (this.pathIn === table && this.pathTo === zoomed) return;
    Object.assign(this, { pathIn: table, pathTo: zoomed });
    const { frames } = this.panel;
    const steps = [];
    for (const node of table.path(zoomed)) {
      const frame = table.frameOf(node);
      const last = steps.at(-1);
      if (last && frames.isUnresolved(frame) && last.frame === frame)
        Object.assign(last, { node, count: last.count + 1 });
      else steps.push({ node, frame, count: 1 });
    }
    const crumbs = steps.map(({ node, frame, count }) => {
      const name = frames.nameOf(frame);
      const [text, title] =
        count > 1 ? [`${name} × ${count}`, `${count} functions without symbol in ${name}`] : [name, name];
      const crumb = makeButton("crumb", text, title, () => this.panel.zoom.to(node));
      if (node === zoomed) crumb.setAttribute("aria-current", "location");
      return crumb;
    });
    const row = byId("flame-path");
    row.replaceChildren(...crumbs);
    row.scrollLeft = row.scrollWidth;
  }
}

function changeEntry([text, title, colour, mark]) {
  const entry = swatchEntry("legend-entry", ["gone", "", "new"][mark + 1], element("span", "legend-name", text));
  entry.title = title;
  entry.firstChild.style.background = `var(${colour})`;
  return entry;
}
