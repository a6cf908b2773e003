// Which part of the graphs is shown: the state's zoom and view become positions, gestures become changes of the state.

const SAME_GESTURE_MS = 900;

export class Zoom {
  constructor(panel) {
    this.panel = panel;
    this.last = -Infinity;
    this.moving = false;
  }

  /** The positions of the state's `view` inside a node; null when the node is shown whole. */
  spanIn(table, node) {
    const { view } = this.panel.state;
    if (!view) return null;
    const start = table.startOf(node);
    return view.map((part) => start + part * table.totalOf(node));
  }

  /** Bring the graphs where the state says; not while a gesture of the graphs themselves changes it. */
  follow() {
    if (this.moving) return;
    const { graph, upper, tables, state } = this.panel;
    const { table } = graph;
    const anchor = table.resolve(state.zoom);
    const span = this.spanIn(table, anchor);
    graph.go(span && table.kind === "time" ? table.covering(...span) : anchor, span);
    if (tables.callers) upper.go(tables.callers.resolve(state.upper), null);
  }

  /** Zoom to a node, as a step that can be undone. */
  to(node, graph = this.panel.graph) {
    const { store, upper } = this.panel;
    const { table } = graph;
    graph.select(node);
    if (graph === upper) store.set({ upper: framesTo(table, node) });
    else if (table.kind === "time") store.set({ zoom: [], view: node ? partsOf(table, node) : null });
    else store.set({ zoom: framesTo(table, node), view: null });
  }

  /** The reader turns the wheel or drags: one step of the history for one gesture. */
  moved(graph) {
    if (graph === this.panel.upper) return;
    const { table, zoomed, span } = graph;
    const anchor = table.kind === "time" ? 0 : zoomed;
    const start = table.startOf(anchor);
    const total = table.totalOf(anchor) || 1;
    const view = span.map((end) => +((end - start) / total).toFixed(9));
    const whole = view[0] <= 0 && view[1] >= 1;
    const merge = performance.now() - this.last < SAME_GESTURE_MS;
    this.last = performance.now();
    this.moving = true;
    this.panel.store.set({ zoom: framesTo(table, anchor), view: whole ? null : view }, { merge });
    this.moving = false;
  }

  /** Show the positions that the reader has chosen on the minimap. */
  choose(from, to) {
    const { graph } = this.panel;
    graph.span = [from, Math.max(to, from + graph.table.extent * 1e-6)];
    graph.zoomed = graph.table.covering(...graph.span);
    graph.grow();
    graph.redraw();
    this.moved(graph);
  }
}

// The functions on the way to a node, without the root.
function framesTo(table, node) {
  return table
    .path(node)
    .slice(1)
    .map((step) => table.frameOf(step));
}

// A node's place as parts of the whole.
function partsOf(table, node) {
  return [table.startOf(node) / table.extent, (table.startOf(node) + table.totalOf(node)) / table.extent];
}
