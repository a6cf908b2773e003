// Keys on the flamegraph, beside those that move about in a graph (flame/gestures.js).

import { byId } from "../core/dom.js";
import { ACTIONS, runAction } from "./actions.js";

/** A key pressed on a graph; whether it means anything. */
export function pressedOnGraph(panel, event, graph) {
  const { key } = event;
  const { state, store, zoom } = panel;
  if (ACTIONS.some(([action]) => action === key) && graph.selected >= 0) runAction(panel, key);
  else if (key === "Escape") store.set({ zoom: [], view: null, upper: [] });
  else if (key === "Backspace") zoom.to(Math.max(panel.graph.table.parentOf(panel.graph.zoomed), 0));
  else if (key === "n" || key === "N") panel.search.next(key === "n" ? 1 : -1);
  else if (key === "i") store.set({ inverted: !state.inverted, order: "weight", zoom: [], view: null });
  else if (key === "t" && panel.page.timed) {
    store.set({ order: state.order === "time" ? "weight" : "time", inverted: false, zoom: [], view: null });
  } else if (key === "o") store.set({ flame: !state.flame });
  else if (key === "ContextMenu" && graph.selected >= 0) {
    const box = graph.view.canvas.getBoundingClientRect();
    panel.details.openMenu({ clientX: box.left + box.width / 3, clientY: Math.max(box.top, 80) });
  } else return false;
  return true;
}

/** A key pressed anywhere on the page. */
export function pressedOnPage(panel, event) {
  if (event.target.matches?.("input, textarea, select")) return;
  if (event.key === "/" && !event.ctrlKey) byId("flame-search").focus();
  else if (event.key === "?") panel.controls.help();
  else return;
  event.preventDefault();
}
