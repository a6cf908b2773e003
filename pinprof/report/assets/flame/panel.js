// The flamegraph's section: asks the engine for what the state says, and shows the answer. What can be taken back goes
// through the store; hovering and selecting do not.

import { byId, embedded, inflatedText } from "../core/dom.js";
import { formatShare, formatWeight } from "../core/format.js";
import { CHANGES, FILTERS } from "../core/store.js";
import { Engine } from "../engine/engine.js";
import { printView, saveView } from "./actions.js";
import { Sides } from "./change.js";
import { colourStyle, ranked } from "./colouring.js";
import { Controls } from "./controls.js";
import { Details } from "./details.js";
import { Frames } from "./frames.js";
import { Graph } from "./graph.js";
import { pressedOnGraph, pressedOnPage } from "./keys.js";
import { Minimap } from "./minimap.js";
import { Painter } from "./painter.js";
import { Search } from "./search.js";
import { TimeTable } from "./timetable.js";
import { TreeTable } from "./treetable.js";
import { Zoom } from "./zoom.js";

// Keys of the state that another answer of the engine belongs to.
const EDITS = CHANGES.filter((key) => key !== "sandwich");
const QUERY = ["event", ...FILTERS, "split", "inverted", "order", "sandwich", "side"];

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
    this.graph = this.#graph("flame");
    this.upper = this.#graph("flame-callers");
    this.zoom = new Zoom(this);
    this.search = new Search(this);
    this.sides = page.compared ? new Sides(page, store) : null;
    this.minimap = new Minimap(byId("flame-minimap"), (from, to) => this.zoom.choose(from, to));
    for (const kind of ["svg", "png", "print", "link"]) {
      byId(`flame-save-${kind}`).addEventListener("click", () => saveView(this, kind));
    }
    window.addEventListener("beforeprint", () => printView(this, true));
    window.addEventListener("afterprint", () => printView(this, false));
    document.addEventListener("keydown", (event) => pressedOnPage(this, event));
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
    this.#style();
    this.graph.draw();
    this.upper.draw();
    this.minimap.show(this.graph.table, this.painter.style);
  }

  #graph(id) {
    const view = { scroller: byId(`${id}-scroller`), spacer: byId(`${id}-spacer`), canvas: byId(`${id}-canvas`) };
    const graph = new Graph(view, null, {
      moved: () => this.zoom.moved(graph),
      select: (node) => {
        this.acting = graph;
        this.details.describe(graph, node);
      },
      zoom: (node) => this.zoom.to(node, graph),
      hover: (node, at) => this.details.hover(graph, node, at),
      menu: (at) => this.details.openMenu(at),
      key: (event) => pressedOnGraph(this, event, graph),
    });
    return graph;
  }

  #changed(state, before) {
    if (!this.frames) return;
    const { box } = this.search;
    if (box.value !== state.search) box.value = state.search;
    if ([...QUERY, ...EDITS].some((key) => JSON.stringify(state[key]) !== JSON.stringify(before[key]))) {
      this.#ask();
      return;
    }
    if (!this.answer) return;
    if (state.colour !== before.colour) this.recolour();
    if (state.flame !== before.flame) this.#showTables();
    else if (["zoom", "view", "upper"].some((key) => state[key] !== before[key])) this.zoom.follow();
    if (state.search !== before.search) this.search.mark();
    this.#describe();
  }

  async #ask() {
    const { state } = this;
    const values = (keys) => Object.fromEntries(keys.map((key) => [key, state[key]]));
    const asked = { ...values(QUERY), edits: values(EDITS) };
    this.asked = asked;
    byId("flame").setAttribute("aria-busy", "true");
    const answer = await this.engine.derive(asked);
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
    this.#style();
    this.#showTables();
    this.search.mark();
    this.#describe();
    byId("flame").setAttribute("aria-busy", "false");
    byId("flame").dataset.ready = String(this.state.event);
  }

  #style() {
    this.painter = new Painter(colourStyle(this.state.colour, this.page, this.frames, this.ranks));
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
    this.graph.show(main, { flame: state.flame && !callers, zoomed, span: this.zoom.spanIn(main, zoomed) });
    if (this.graph.span && main.kind === "time" && state.view) this.graph.zoomed = main.covering(...this.graph.span);
    this.details.describe(this.graph, -1);
    this.minimap.show(main, this.painter.style);
    byId("flame-empty").hidden = main.extent > 0;
  }

  #describe() {
    const { graph, state } = this;
    this.controls.show(state, this.answer);
    this.sides?.show(state, this.answer, this.unit);
    this.controls.path(graph.table, graph.zoomed);
    const anchor = graph.table.resolve(state.zoom);
    this.minimap.mark(this.zoom.spanIn(graph.table, anchor) ?? graph.extentOf(anchor));
    const what =
      this.answer.total < this.answer.whole ? `, ${formatShare(graph.table.extent, this.answer.whole)} of all` : "";
    graph.view.canvas.setAttribute(
      "aria-label",
      `Flamegraph of ${this.page.events[state.event].name}: ${formatWeight(graph.table.extent, this.unit)}${what}`,
    );
    this.search.summary();
  }
}
