// Mouse, touch and keyboard on a graph.

import { watchWheel } from "../core/canvas.js";

const DRAG_FROM = 5;
const PAN_KEYS = { a: -0.2, d: 0.2 };
const ZOOM_KEYS = { w: 0.7, "+": 0.7, "=": 0.7, s: 1 / 0.7, "-": 1 / 0.7 };
const WALK_KEYS = { ArrowDown: "down", ArrowUp: "up", ArrowLeft: "left", ArrowRight: "right", Home: "home" };

export function watchGraph(graph) {
  const { canvas } = graph.view;
  const pointers = new Map();
  let dragged = false;
  let reach = 0;

  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event);
    dragged = false;
    if (pointers.size === 2) reach = reachOf(pointers);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) {
      if (graph.table) graph.hover(graph.nodeAt(event.clientX, event.clientY), event);
      return;
    }
    const way = event.clientX - before.clientX;
    if (pointers.size === 1 && !dragged && Math.abs(way) < DRAG_FROM) return;
    if (!dragged && pointers.size === 1) canvas.setPointerCapture(event.pointerId);
    dragged = true;
    pointers.set(event.pointerId, event);
    if (pointers.size === 1) graph.pan(-way / graph.width);
    else {
      const now = reachOf(pointers);
      const middle = [...pointers.values()].reduce((sum, pointer) => sum + pointer.clientX, 0) / pointers.size;
      if (now > 0 && reach > 0) graph.scale(reach / now, part(middle));
      reach = now;
    }
    graph.hover(-1, event);
  });
  for (const end of ["pointerup", "pointercancel"])
    canvas.addEventListener(end, (event) => pointers.delete(event.pointerId));
  canvas.addEventListener("pointerleave", (event) => graph.hover(-1, event));
  canvas.addEventListener("click", (event) => {
    const node = dragged ? -1 : graph.nodeAt(event.clientX, event.clientY);
    dragged = false;
    if (node < 0) return;
    graph.select(node);
    graph.on.zoom(node);
  });
  canvas.addEventListener("contextmenu", (event) => {
    const node = graph.nodeAt(event.clientX, event.clientY);
    if (node <= 0) return;
    event.preventDefault();
    graph.select(node);
    graph.on.menu(event);
  });
  watchWheel(
    canvas,
    (factor, clientX) => graph.scale(factor, part(clientX)),
    (pixels) => graph.pan(pixels / graph.width),
  );
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (WALK_KEYS[event.key]) graph.walk(WALK_KEYS[event.key]);
    else if (PAN_KEYS[event.key]) graph.pan(PAN_KEYS[event.key]);
    else if (ZOOM_KEYS[event.key]) graph.scale(ZOOM_KEYS[event.key], middleOfSelection());
    else if (event.key === "Enter" || event.key === " ") graph.on.zoom(Math.max(graph.selected, 0));
    else if (!graph.on.key(event)) return;
    event.preventDefault();
  });

  function part(clientX) {
    return (clientX - canvas.getBoundingClientRect().left) / graph.width;
  }

  function middleOfSelection() {
    if (graph.selected < 0) return 0.5;
    const [from, to] = graph.span;
    const [start, end] = graph.extentOf(graph.selected);
    return Math.min(1, Math.max(0, ((start + end) / 2 - from) / (to - from)));
  }
}

function reachOf(pointers) {
  const [one, other] = [...pointers.values()];
  return Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
}
