// The flamegraph's section: asks the engine for what the state says, shows the answer, and turns gestures into changes
// of the state. What can be taken back goes through the store; hovering and selecting do not.

import { byId, embedded, inflatedText } from "../core/dom.js";
import { formatShare, formatWeight } from "../core/format.js";
import { Engine } from "../engine/engine.js";
import { act, print, save } from "./actions.js";
import { lookOf, ranked } from "./colouring.js";
import { Controls } from "./controls.js";
import { ACTIONS, Details } from "./details.js";
import { Frames, matcher } from "./frames.js";
import { Graph } from "./graph.js";
import { Minimap } from "./minimap.js";
import { Painter } from "./painter.js";
import { TimeTable } from "./timetable.js";
import { TreeTable } from "./treetable.js";

const SAME_GESTURE_MS = 900;
const QUESTIONS = [
  "event",
  "range",
  "span",
  "causes",
  "dsos",
  "modes",
  "threads",
  "split",
  "inverted",
  "order",
  "sandwich",
  "focus",
  "hide",
  "drop",
  "fold",
  "modules",
];

export class FlamePanel {
  /** `page` is the page's data, `store` its state, `script` the source of the engine's worker. */
  constructor(page, store, script) {
    Object.assign(this, { page, store });
    this.engine = new Engine(script);
    this.controls = new Controls(this, store);
    this.details = new Details(this, {
      tip: byId("flame-tip"),
      line: byId("flame-detail"),
      actions: byId("flame-actions"),
      menu: byId("flame-menu"),
    });
    this.graph = this.#graph("flame", "zoom");
    this.upper = this.#graph("flame-callers", "upper");
    this.minimap = new Minimap(byId("flame-minimap"), (from, to) => this.#choose(from, to));
    this.moved = -Infinity;
    byId("flame-search").value = store.state.search;
    byId("flame-search").addEventListener("input", () =>
      store.set({ search: byId("flame-search").value }, { merge: true }),
    );
    byId("flame-search").addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.#nextMatch(event.shiftKey ? -1 : 1);
    });
    for (const kind of ["svg", "png", "print", "link"])
      byId(`flame-save-${kind}`).addEventListener("click", () => save(this, kind));
    window.addEventListener("beforeprint", () => print(this, true));
    window.addEventListener("afterprint", () => print(this, false));
    document.addEventListener("keydown", (event) => this.#shortcut(event));
    store.subscribe((state, before) => this.#changed(state, before));
  }

  /** Unpack the recording and show the first view; `ready` says when questions may be asked. */
  start() {
    this.ready = this.#begin();
    return this.ready;
  }

  async #begin() {
    const { layout, facts } = this.page.flame;
    const [columns, names] = await Promise.all([
      this.engine.start({ packed: embedded("flame-data"), layout, facts }),
      inflatedText("flame-names"),
    ]);
    this.frames = new Frames(this.page, columns, JSON.parse(names));
    await this.#ask();
  }

  get state() {
    return this.store.state;
  }

  get unit() {
    return this.page.events[this.state.event].unit;
  }

  /** The whole of what is drawn, in a word. */
  shownName() {
    return this.state.range >= 0 ? this.page.ranges[this.state.range].name : "what is shown";
  }

  recolour() {
    if (!this.answer) return;
    this.#look();
    this.graph.draw();
    this.upper.draw();
    this.minimap.show(this.graph.table, this.painter.look);
  }

  #graph(id, key) {
    const view = { scroller: byId(`${id}-scroller`), spacer: byId(`${id}-spacer`), canvas: byId(`${id}-canvas`) };
    const graph = new Graph(view, null, {
      moved: () => this.#moved(graph, key),
      select: (node) => {
        this.acting = graph;
        this.details.describe(graph, node);
      },
      zoom: (node) => this.zoomTo(node, graph),
      hover: (node, at) => this.details.hover(graph, node, at),
      menu: (node, at) => this.details.openMenu(at),
      key: (event) => this.#key(event, graph),
    });
    return graph;
  }

  #changed(state, before) {
    if (!this.frames) return;
    if (byId("flame-search").value !== state.search) byId("flame-search").value = state.search;
    if (QUESTIONS.some((key) => JSON.stringify(state[key]) !== JSON.stringify(before[key]))) {
      this.#ask();
      return;
    }
    if (!this.answer) return;
    if (state.colour !== before.colour) this.recolour();
    if (state.flame !== before.flame) this.#showTables();
    else if (
      this.moving !== true &&
      (state.zoom !== before.zoom || state.view !== before.view || state.upper !== before.upper)
    )
      this.#zoom();
    if (state.search !== before.search) this.#search();
    this.#describe();
  }

  async #ask() {
    const { focus, hide, drop, fold, modules, ...query } = Object.fromEntries(
      QUESTIONS.map((key) => [key, this.state[key]]),
    );
    this.asked = {};
    const { asked } = this;
    byId("flame").setAttribute("aria-busy", "true");
    const answer = await this.engine.derive({ ...query, edits: { focus, hide, drop, fold, modules } });
    if (asked !== this.asked) {
      this.engine.release(answer);
      return;
    }
    if (this.answer) this.engine.release(this.answer);
    this.answer = answer;
    this.ranks = ranked(answer.facets.dsos);
    this.tables = Object.fromEntries(
      Object.entries(answer.tables).map(([name, columns]) => [
        name,
        columns.kind === "time" ? new TimeTable(columns) : new TreeTable(columns),
      ]),
    );
    this.#look();
    this.#showTables();
    this.#search();
    this.#describe();
    byId("flame").setAttribute("aria-busy", "false");
    byId("flame").dataset.ready = String(this.state.event);
  }

  #look() {
    this.painter = new Painter(lookOf(this.state.colour, this.page, this.frames, this.ranks));
    this.graph.painter = this.painter;
    this.upper.painter = this.painter;
  }

  #showTables() {
    const { main, callers } = this.tables;
    const { state } = this;
    byId("flame-callers").hidden = !callers;
    if (!callers) {
      this.upper.table = null;
      if (this.acting === this.upper) this.acting = this.graph;
    }
    if (callers) {
      byId("flame-callers-name").textContent = this.frames.nameOf(state.sandwich);
      this.upper.show(callers, { flame: true, zoomed: callers.resolve(state.upper) });
    }
    const zoomed = main.resolve(state.zoom);
    this.graph.show(main, { flame: state.flame && !callers, zoomed, span: this.#span(main, zoomed) });
    if (this.graph.span && main.kind === "time" && state.view) this.graph.zoomed = main.covering(...this.graph.span);
    this.details.describe(this.graph, -1);
    this.minimap.show(main, this.painter.look);
    byId("flame-empty").hidden = main.extent > 0;
  }

  #span(table, zoomed) {
    if (!this.state.view) return null;
    const [from, to] = this.state.view;
    const start = table.startOf(zoomed);
    return [start + from * table.totalOf(zoomed), start + to * table.totalOf(zoomed)];
  }

  // From the state to the graphs.
  #zoom() {
    const { table } = this.graph;
    const anchor = table.resolve(this.state.zoom);
    const span = this.#span(table, anchor);
    const zoomed = span && table.kind === "time" ? table.covering(...span) : anchor;
    this.graph.go(zoomed, span);
    if (this.tables.callers) this.upper.go(this.tables.callers.resolve(this.state.upper), null);
  }

  /** Zoom to a node, as a step that can be undone. */
  zoomTo(node, graph = this.graph) {
    const { table } = graph;
    graph.select(node);
    const path = table
      .path(node)
      .slice(1)
      .map((step) => table.frameOf(step));
    if (graph === this.upper) this.store.set({ upper: path });
    else if (table.kind === "time") this.store.set({ zoom: [], view: node ? partsOf(table, node) : null });
    else this.store.set({ zoom: path, view: null });
  }

  // From the graphs to the state, while the reader turns the wheel or drags: one step for one gesture.
  #moved(graph, key) {
    if (key === "upper") return;
    const { table, zoomed, span } = graph;
    const anchor = table.kind === "time" ? 0 : zoomed;
    const start = table.startOf(anchor);
    const total = table.totalOf(anchor) || 1;
    const view = [(span[0] - start) / total, (span[1] - start) / total].map((part) => +part.toFixed(9));
    const whole = view[0] <= 0 && view[1] >= 1;
    const merge = performance.now() - this.moved < SAME_GESTURE_MS;
    this.moved = performance.now();
    this.moving = true;
    const zoom = anchor
      ? table
          .path(anchor)
          .slice(1)
          .map((step) => table.frameOf(step))
      : [];
    this.store.set({ zoom, view: whole ? null : view }, { merge });
    this.moving = false;
  }

  #choose(from, to) {
    const { graph } = this;
    graph.span = [from, Math.max(to, from + graph.table.extent * 1e-6)];
    graph.zoomed = graph.table.covering(...graph.span);
    graph.grow();
    graph.redraw();
    this.#moved(graph, "zoom");
  }

  #describe() {
    const { graph, state } = this;
    this.controls.show(state, this.answer);
    this.controls.path(graph.table, graph.zoomed);
    const anchor = graph.table.resolve(state.zoom);
    this.minimap.mark(this.#span(graph.table, anchor) ?? graph.extentOf(anchor));
    const what =
      this.answer.total < this.answer.whole ? `, ${formatShare(graph.table.extent, this.answer.whole)} of all` : "";
    graph.view.canvas.setAttribute(
      "aria-label",
      `Flamegraph of ${this.page.events[state.event].name}: ${formatWeight(graph.table.extent, this.unit)}${what}`,
    );
    this.#share();
  }

  #search() {
    const query = this.state.search.trim();
    const test = matcher(query);
    byId("flame-search").setAttribute("aria-invalid", String(query !== "" && !test));
    const matches = test ? this.frames.matching(test) : null;
    for (const graph of [this.graph, this.upper]) {
      if (!graph.table) continue;
      graph.table.mark(matches);
      graph.redraw();
    }
    this.#share();
  }

  #share() {
    const out = byId("flame-match");
    const { table, zoomed } = this.graph;
    if (!table.marks) {
      out.textContent = this.state.search.trim() ? "not a valid expression" : "";
      return;
    }
    if (this.tables.callers) {
      out.textContent = this.#pairShare();
      return;
    }
    const part = table.matchedWeight(zoomed);
    const name = table.extent < this.answer.whole ? this.shownName() : this.page.events[this.state.event].name;
    const where = zoomed ? "this zoom" : name;
    out.textContent = part
      ? `${formatShare(part, table.totalOf(zoomed))} of ${where}, ${formatWeight(part, this.unit)}`
      : "no match";
  }

  // Of one function's stacks, those with a match among its callers or its callees; what is zoomed out of is not counted.
  #pairShare() {
    const { upper, lower, weight } = this.answer.pairs;
    const { graph: callees, upper: callers } = this;
    let part = 0;
    let whole = 0;
    for (let row = 0; row < weight.length; row += 1) {
      if (!callees.table.holds(callees.zoomed, lower[row]) || !callers.table.holds(callers.zoomed, upper[row]))
        continue;
      whole += weight[row];
      if (callees.table.markOf(lower[row]) || callers.table.markOf(upper[row])) part += weight[row];
    }
    const where =
      callees.zoomed || callers.zoomed ? "this zoom" : `the stacks through ${this.frames.nameOf(this.state.sandwich)}`;
    return part ? `${formatShare(part, whole)} of ${where}, ${formatWeight(part, this.unit)}` : "no match";
  }

  #nextMatch(step) {
    const { table, selected } = this.graph;
    if (!table.marks) return;
    const node = table.nextMatch(Math.max(selected, 0), step);
    if (node >= 0) this.graph.select(node);
  }

  #key(event, graph) {
    const { key } = event;
    if (ACTIONS.some(([action]) => action === key) && graph.selected >= 0) act(this, key);
    else if (key === "Escape") this.store.set({ zoom: [], view: null, upper: [] });
    else if (key === "Backspace") this.zoomTo(Math.max(this.graph.table.parentOf(this.graph.zoomed), 0));
    else if (key === "n" || key === "N") this.#nextMatch(key === "n" ? 1 : -1);
    else if (key === "i") this.store.set({ inverted: !this.state.inverted, order: "weight", zoom: [], view: null });
    else if (key === "t" && this.page.timed)
      this.store.set({ order: this.state.order === "time" ? "weight" : "time", inverted: false, zoom: [], view: null });
    else if (key === "o") this.store.set({ flame: !this.state.flame });
    else if (key === "ContextMenu" && graph.selected >= 0) {
      const box = graph.view.canvas.getBoundingClientRect();
      this.details.openMenu({ clientX: box.left + box.width / 3, clientY: Math.max(box.top, 80) });
    } else return false;
    return true;
  }

  #shortcut(event) {
    if (event.target.matches?.("input, textarea, select")) return;
    if (event.key === "/" && !event.ctrlKey) byId("flame-search").focus();
    else if (event.key === "?") this.controls.help();
    else return;
    event.preventDefault();
  }
}

// A node's place as parts of the whole.
function partsOf(table, node) {
  return [table.startOf(node) / table.extent, (table.startOf(node) + table.totalOf(node)) / table.extent];
}
