// Mouse, touch, keyboard and buttons on the timeline: dragging brushes, with Shift it pans.

import { watchWheel } from "../core/canvas.js";
import { byId } from "../core/dom.js";

const GRIP_PX = 4;
const ARROWS = { ArrowLeft: -1, ArrowRight: 1 };
const ZOOM_FACTORS = { "+": 0.7, "=": 0.7, "-": 1 / 0.7 };

export function watchTimeline(panel) {
  const { canvas, painter, timeline } = panel;
  let drag = null;
  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const endDrag = () => {
    drag = null;
    panel.dragged = null;
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    const [x, y] = point(event);
    const threads = panel.threadsAt(x, y);
    if (threads) panel.store.toggleAll("threads", threads);
    if (threads || x < painter.gutter) return;
    canvas.setPointerCapture(event.pointerId);
    drag = { x, from: painter.time(x), pan: event.shiftKey ? [...panel.view] : null };
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = point(event);
    if (!drag) panel.hover(x, y, event);
    else if (drag.pan) {
      const [from, to] = drag.pan;
      const way = ((drag.x - x) / painter.width) * (to - from);
      panel.show(from + way, to + way);
    } else if (panel.dragged || Math.abs(x - drag.x) >= GRIP_PX) {
      const at = painter.time(x);
      panel.brush([Math.min(at, drag.from), Math.max(at, drag.from)]);
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    const span = panel.dragged;
    const clicked = drag && !drag.pan && !span;
    endDrag();
    if (span) panel.span = span;
    else if (clicked) panel.detail(...point(event));
    panel.draw();
  });
  canvas.addEventListener("pointercancel", () => {
    endDrag();
    panel.draw();
  });
  canvas.addEventListener("pointerleave", () => {
    panel.tip.hidden = true;
  });
  canvas.addEventListener("dblclick", (event) => panel.zoomToHit(...point(event)));
  watchWheel(
    canvas,
    (factor, clientX) => panel.zoom(factor, painter.time(clientX - canvas.getBoundingClientRect().left)),
    (pixels) => panel.pan(pixels / painter.width),
  );
  canvas.addEventListener("keydown", (event) => pressed(panel, event));
  const press = (id, act) => byId(id).addEventListener("click", act);
  press("timeline-in", () => panel.zoom(0.5));
  press("timeline-out", () => panel.zoom(2));
  press("timeline-whole", () => panel.show(0, timeline.span));
  press("timeline-zoom", () => panel.show(...panel.span, false));
  press("timeline-clear", () => {
    panel.span = null;
  });
}

function pressed(panel, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { key } = event;
  const { span, timeline } = panel;
  if (ARROWS[key] && event.shiftKey) panel.stretch(ARROWS[key] / 20);
  else if (ARROWS[key]) panel.pan(ARROWS[key] * 0.2);
  else if (ZOOM_FACTORS[key]) panel.zoom(ZOOM_FACTORS[key]);
  else if (key === "0") panel.show(0, timeline.span);
  else if (key === "Enter" && span) panel.show(...span);
  else if (key === "Escape" && span) panel.span = null;
  else return;
  event.preventDefault();
  event.stopPropagation();
}
