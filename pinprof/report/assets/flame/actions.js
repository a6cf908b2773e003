// What can be done with a selected function or with the whole view: change the stacks, copy, save, print.

import { byId } from "../core/dom.js";
import { asPng, asSvg, copyText, download } from "./export.js";

/** [key, label, explanation] of what can be done with a function. */
export const ACTIONS = [
  ["f", "Focus", "Show only stacks through this function, starting at it"],
  ["b", "Callers and callees", "Show all callers above and all callees below"],
  ["h", "Hide", "Remove this function from all stacks; its callees move to its callers"],
  ["c", "Collapse", "Merge all callees into this function"],
  ["m", "Collapse module", "Merge neighbouring functions of this module into one"],
  ["x", "Drop", "Remove all stacks through this function"],
  ["y", "Copy name", "Copy the function's name"],
  ["Y", "Copy stack", "Copy the call path, innermost function first"],
];
/** Do one of the actions with the selected node. */
export function runAction(panel, key) {
  const graph = panel.acting ?? panel.graph;
  const node = graph.selected;
  const frame = node < 0 ? -1 : graph.table.frameOf(node);
  if (frame < 0) return;
  const { frames, state, store } = panel;
  if (key === "y") copy(panel, frames.nameOf(frame), "name");
  if (key === "Y") copy(panel, stackOf(panel, graph, node), "stack");
  if (!frames.isFunction(frame)) return;
  const home = { zoom: [], view: null, upper: [] };
  if (key === "f") store.set({ focus: frame, sandwich: -1, ...home });
  if (key === "b") store.set({ sandwich: frame, inverted: false, ...home });
  if (key === "h") store.set({ hide: [...state.hide, frame], view: null });
  if (key === "c") store.set({ fold: [...state.fold, frame], view: null });
  if (key === "m") store.set({ modules: [...state.modules, frames.dsoOf(frame)], view: null });
  if (key === "x") store.set({ drop: [...state.drop, frame], view: null });
}

// Innermost function first, as perf prints stacks.
function stackOf(panel, graph, node) {
  const { frames, page, state } = panel;
  const { table } = graph;
  const chain = table
    .path(node)
    .map((step) => table.frameOf(step))
    .filter((frame) => frame >= 0);
  if (!state.inverted && graph === panel.graph) chain.reverse();
  const line = (frame) =>
    frames.isFunction(frame) ? `${frames.nameOf(frame)} (${page.dsos[frames.dsoOf(frame)]})` : frames.nameOf(frame);
  return chain.map(line).join("\n");
}

async function copy(panel, text, what) {
  await copyText(text);
  byId("flame-status").textContent = `Copied the ${what}.`;
  clearTimeout(panel.statusTimer);
  panel.statusTimer = setTimeout(() => {
    byId("flame-status").textContent = "";
  }, 4000);
}

/** Save the view as a picture, print it, or copy a link to it. */
export async function saveView(panel, kind) {
  byId("flame-save").open = false;
  const name = `${panel.page.title}-flamegraph`;
  if (kind === "svg") download(asSvg(panel), "image/svg+xml", `${name}.svg`);
  if (kind === "png") download(await asPng(panel), "image/png", `${name}.png`);
  if (kind === "print") window.print();
  if (kind === "link") await copy(panel, location.href, "link");
}

/** Before and after printing: on paper every level, no scrolling. */
export function printView(panel, begins) {
  byId("flame-scroller").classList.toggle("whole", begins);
  panel.graph.resize();
}
