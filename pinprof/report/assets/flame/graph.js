// One graph on the page: a table on a canvas inside a scroller, the part of it that is shown, and what is selected.

import { sizeCanvas } from "../core/canvas.js";
import { watchGraph } from "./gestures.js";
import { depthAt, ROW, rowTop } from "./painter.js";

const TWEEN_MS = 180;
const CLOSEST = 1e-9;

export class Graph {
  /**
   * `view` holds the elements scroller, spacer and canvas; `on` is called with moved(), select(node), zoom(node),
   * hover(node, at), menu(at) and key(event).
   */
  constructor(view, painter, on) {
    Object.assign(this, { view, painter, on });
    this.context = view.canvas.getContext("2d");
    this.selected = -1;
    this.hovered = -1;
    this.zoomed = 0;
    this.flame = false;
    watchGraph(this);
    new ResizeObserver(() => this.resize()).observe(view.scroller);
    view.scroller.addEventListener("scroll", () => this.redraw());
  }

  /** Show another table; `zoomed` and `span` say which part of it. */
  show(table, { flame, zoomed = 0, span = null }) {
    const fresh = !this.table;
    this.table = table;
    this.flame = flame;
    this.zoomed = zoomed;
    this.selected = -1;
    this.hovered = -1;
    this.span = span ?? this.extentOf(zoomed);
    this.resize();
    if (flame) this.view.scroller.scrollTop = this.content;
    else if (fresh) this.view.scroller.scrollTop = 0;
  }

  extentOf(node) {
    const start = this.table.startOf(node);
    return [start, start + (this.table.totalOf(node) || 1)];
  }

  /** Go to a part of the table, at once or smoothly. */
  go(zoomed, span, { smooth = true } = {}) {
    this.zoomed = zoomed;
    cancelAnimationFrame(this.frame);
    if (smooth && !window.matchMedia("(prefers-reduced-motion: reduce)").matches)
      this.#tween(span ?? this.extentOf(zoomed));
    else {
      this.span = span ?? this.extentOf(zoomed);
      this.resize();
    }
  }

  /** Zoom by `factor` about a part of the width, or move by a part of it. */
  scale(factor, at = 0.5) {
    const [from, to] = this.span;
    const anchor = from + (to - from) * at;
    this.#clamped(anchor - (anchor - from) * factor, anchor + (to - anchor) * factor);
  }

  pan(part) {
    const [from, to] = this.span;
    const way = Math.min(Math.max(part * (to - from), -from), this.table.extent - to);
    this.#clamped(from + way, to + way);
  }

  #clamped(from, to) {
    const { extent } = this.table;
    const least = extent * CLOSEST;
    const low = Math.max(0, Math.min(from, extent - least));
    const high = Math.min(extent, Math.max(to, low + least));
    cancelAnimationFrame(this.frame);
    this.span = [low, high];
    this.zoomed = this.table.covering(low, high);
    this.grow();
    this.redraw();
    this.on.moved();
  }

  /** Make room for levels that have become wide enough to be seen; a step of its own, or another view, takes it back. */
  grow() {
    const { content } = this;
    if (this.#contentNow() <= content) return;
    this.resize();
    if (this.flame) this.view.scroller.scrollTop += this.content - content;
  }

  #contentNow() {
    return ROW * Math.max(this.table.deepest(...this.span, (this.span[1] - this.span[0]) / this.width) + 1, 2);
  }

  select(node) {
    this.selected = node;
    if (node >= 0) this.#reveal(node);
    this.on.select(node);
    this.redraw();
  }

  resize() {
    if (!this.table) return;
    const { canvas, scroller, spacer } = this.view;
    this.width = Math.max(scroller.clientWidth, 1);
    this.content = this.#contentNow();
    spacer.style.height = `${this.content}px`;
    this.height = scroller.clientHeight;
    sizeCanvas(canvas, this.width, this.height);
    this.draw();
  }

  redraw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  box() {
    const { width, height, content, flame } = this;
    return { width, height, content, flame, scroll: this.view.scroller.scrollTop };
  }

  draw() {
    if (!this.table) return;
    const box = this.box();
    this.painter.draw(this.context, this.table, this.span, box, this.table.depthOf(this.zoomed));
    if (this.selected >= 0) this.painter.outline(this.context, this.table, this.selected, this.span, box, 2);
    if (this.hovered >= 0) this.painter.outline(this.context, this.table, this.hovered, this.span, box, 1);
  }

  /** The node under a point of the window, or -1. */
  nodeAt(clientX, clientY) {
    const frame = this.view.canvas.getBoundingClientRect();
    const [from, to] = this.span;
    const position = from + ((clientX - frame.left) / this.width) * (to - from);
    return this.table.at(depthAt(clientY - frame.top, this.box()), position);
  }

  hover(node, at) {
    if (node !== this.hovered) {
      this.hovered = node;
      this.redraw();
    }
    this.on.hover(node, at);
  }

  /** Move the selection one step: up, down, left, right or home. */
  walk(way) {
    const { table } = this;
    const current = Math.max(this.selected, 0);
    const inward = this.flame ? "up" : "down";
    if (way === "home") this.select(0);
    else if (way === "left" || way === "right") this.select(table.sibling(current, way === "left" ? -1 : 1));
    else this.select(way === inward ? table.firstChild(current) : Math.max(table.parentOf(current), 0));
  }

  #tween(goal) {
    const from = this.span;
    const begin = performance.now();
    const step = (now) => {
      const part = Math.min(1, Math.max(0, now - begin) / TWEEN_MS);
      const eased = 1 - (1 - part) ** 3;
      this.span = part === 1 ? goal : [0, 1].map((end) => from[end] + (goal[end] - from[end]) * eased);
      if (part === 1) this.resize();
      else {
        this.draw();
        this.frame = requestAnimationFrame(step);
      }
    };
    this.frame = requestAnimationFrame(step);
  }

  #reveal(node) {
    const { scroller } = this.view;
    const box = this.box();
    const y = rowTop(this.table.depthOf(node), box);
    if (y < 0) scroller.scrollTop += y;
    else if (y + ROW > this.height) scroller.scrollTop += y + ROW - this.height;
  }
}
