// The flamegraph's search: what matches is marked in the graphs, and what it makes up is said beside the box.

import { byId } from "../core/dom.js";
import { formatShare, formatWeight } from "../core/format.js";
import { matcher } from "./frames.js";

export class Search {
  constructor(panel) {
    this.panel = panel;
    this.problem = "";
    this.box = byId("flame-search");
    this.box.value = panel.state.search;
    this.box.addEventListener("input", () => panel.store.set({ search: this.box.value }, { merge: true }));
    this.box.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
    });
  }

  get query() {
    return this.panel.state.search.trim();
  }

  /** Mark the matches in every table. */
  mark() {
    const { frames, graph, upper } = this.panel;
    let test = null;
    this.problem = "";
    try {
      test = matcher(this.query);
    } catch (error) {
      this.problem = error.message;
    }
    this.box.setAttribute("aria-invalid", String(this.problem !== ""));
    const matches = test ? frames.matching(test) : null;
    for (const one of [graph, upper]) {
      if (!one.table) continue;
      one.table.mark(matches);
      one.redraw();
    }
    this.summary();
  }

  /** Say what part of the shown stacks passes through a match. */
  summary() {
    const { tables, graph } = this.panel;
    byId("flame-match").textContent = graph.table.marks
      ? this.#share(tables.callers ? this.#ofPairs() : this.#ofTable())
      : this.problem;
  }

  #share({ part, whole, where }) {
    if (!part) return "no match";
    const zoomed = this.panel.graph.zoomed || (this.panel.tables.callers && this.panel.upper.zoomed);
    return `${formatShare(part, whole)} of ${zoomed ? "this zoom" : where}, ${formatWeight(part, this.panel.unit)}`;
  }

  #ofTable() {
    const { table, zoomed } = this.panel.graph;
    const { answer, page, state } = this.panel;
    const where = table.extent < answer.whole ? this.panel.shownName() : page.events[state.event].name;
    return { part: table.matchedWeight(zoomed), whole: table.totalOf(zoomed), where };
  }

  // The stacks through one function that match among its callers or callees; what is zoomed out of is not counted.
  #ofPairs() {
    const { graph: callees, upper: callers, answer, frames, state } = this.panel;
    const { upper, lower, weight } = answer.pairs;
    let part = 0;
    let whole = 0;
    for (let row = 0; row < weight.length; row += 1) {
      const shown = callees.table.holds(callees.zoomed, lower[row]) && callers.table.holds(callers.zoomed, upper[row]);
      if (!shown) continue;
      whole += weight[row];
      if (callees.table.markOf(lower[row]) || callers.table.markOf(upper[row])) part += weight[row];
    }
    return { part, whole, where: `the stacks through ${frames.nameOf(state.sandwich)}` };
  }

  /** Select the next match, or with -1 the one before. */
  next(step) {
    const { graph } = this.panel;
    if (!graph.table.marks) return;
    const node = graph.table.nextMatch(Math.max(graph.selected, 0), step);
    if (node >= 0) graph.select(node);
  }
}
