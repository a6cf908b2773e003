// Draws the timeline's rows, the axis above them, and what steps back: other ranges, other threads, and what lies beside
// the brush.

import { fitCanvas, fitText } from "../core/canvas.js";
import { firstAt } from "../core/columns.js";
import { themed } from "../core/theme.js";
import { rowsIn } from "./levels.js";
import { arrowEnds, layOutRows, TIME_AXIS_PX } from "./rows.js";
import { timeTicks } from "./spans.js";

const LEAST_ARROW_PX = 8;
const ARROW_PX = 6;
const COARSE_PX = 8;
const INKS = { ink: "--ink", soft: "--soft", line: "--line", on: "--on-cause", card: "--card", accent: "--accent" };

export class TimelinePainter {
  constructor(page, timeline) {
    Object.assign(this, { page, timeline }, layOutRows(timeline));
    this.ends = arrowEnds(this.rows);
  }

  /**
   * `shown`: `view`, [from, to] in ns since the timeline's start; the chosen `threads` and `causes`; `within`, the
   * intervals of the chosen range, or null; `brush`, [from, to] or null.
   */
  draw(canvas, shown) {
    const [context, width] = fitCanvas(canvas, this.height);
    if (!width) return;
    const gutter = width < 640 ? 84 : 150;
    Object.assign(this, { shown, context, gutter, width: width - gutter, right: width });
    this.coarse = false;
    this.ink = Object.fromEntries(Object.entries(INKS).map(([name, property]) => [name, themed(property)]));
    this.colours = this.timeline.styles.map((style) => themed(`--level-${style.level}`));
    this.causeColours = this.page.causes.map((cause) => themed(`--cause-${cause.slug}`));
    context.clearRect(0, 0, width, this.height);
    this.#axis();
    for (const row of this.rows) {
      if (row.kind === "heading") this.#heading(row);
      else this.#title(row);
    }
    context.save();
    context.beginPath();
    context.rect(gutter, 0, this.width, this.height);
    context.clip();
    for (const row of this.rows) {
      if (row.kind === "density") this.#density(row);
      else if (row.levels) this.#spans(row);
      else if (row.kind === "memory") this.#memory(row);
    }
    this.#arrows();
    this.#dimOtherRanges();
    this.#dimOtherThreads();
    if (shown.brush) this.#brush(shown.brush);
    context.restore();
  }

  x(time) {
    const [from, to] = this.shown.view;
    return this.gutter + ((time - from) / (to - from)) * this.width;
  }

  /** The instant at a distance from the canvas's left edge. */
  time(x) {
    const [from, to] = this.shown.view;
    return from + Math.min(Math.max((x - this.gutter) / this.width, 0), 1) * (to - from);
  }

  /** What is drawn of a row: its columns at the level of detail that pixels can show. */
  levelOf(row) {
    const [from, to] = this.shown.view;
    return row.levels.at((to - from) / this.width);
  }

  rowAt(y) {
    return this.rows.find((row) => y >= row.top && y < row.top + row.height);
  }

  #axis() {
    const { context, ink } = this;
    context.strokeStyle = ink.line;
    context.fillStyle = ink.soft;
    context.lineWidth = 1;
    for (const [at, label] of timeTicks(...this.shown.view, this.width)) {
      const x = Math.round(this.x(at)) + 0.5;
      context.beginPath();
      context.moveTo(x, TIME_AXIS_PX - 6);
      context.lineTo(x, this.height);
      context.stroke();
      const half = context.measureText(label).width / 2;
      context.fillText(label, Math.min(Math.max(x - half, this.gutter), this.right - 2 * half), TIME_AXIS_PX / 2 - 3);
    }
  }

  #heading(row) {
    const { context, ink } = this;
    const { font } = context;
    context.font = `600 ${font}`;
    const title = fitText(context, row.title, this.right);
    row.wide = context.measureText(title).width;
    const own = this.timeline.threads[row.title] ?? [];
    context.fillStyle = own.some((thread) => this.shown.threads.includes(thread)) ? ink.accent : ink.ink;
    context.fillText(title, 0, row.top + row.height / 2 + 3);
    context.font = font;
  }

  #title(row) {
    const { context } = this;
    context.fillStyle = this.ink.soft;
    context.fillText(fitText(context, row.title, this.gutter - 12), 0, row.top + Math.min(row.height, 22) / 2);
  }

  // Neighbours below one pixel of one colour are drawn once.
  #spans(row) {
    const { context, gutter, right, ink } = this;
    const { line } = row;
    const spans = this.levelOf(row);
    const drawn = new Map();
    const [first, end] = rowsIn(spans, this.shown.view);
    for (let at = first; at < end; at += 1) {
      const from = this.x(spans.start[at]);
      const to = this.x(spans.start[at] + spans.length[at]);
      if (to < gutter - 1 || from > right) continue;
      const y = row.top + spans.depth[at] * line;
      const key = spans.depth[at] * 64 + spans.style[at];
      if (to - from < 1 && (drawn.get(key) ?? -1) >= from) continue;
      const box = Math.max(to - from, row.kind === "mark" ? 2 : 1);
      drawn.set(key, from + box);
      const busy = spans.busy[at] / Math.max(spans.length[at], 1);
      if (spans.count[at] > 1 && box >= COARSE_PX) this.coarse = true;
      context.globalAlpha = spans.count[at] > 1 ? Math.min(1, 0.3 + 0.7 * busy) : 1;
      // Ranges are the ground that everything else is read against: they stay quiet.
      context.fillStyle = row.kind === "range" ? ink.line : this.colours[spans.style[at]];
      context.fillRect(from, y, box, line - 1);
      context.globalAlpha = 1;
      if (box > 24 && spans.name[at] >= 0) {
        const left = Math.max(from, gutter);
        const name = fitText(context, this.timeline.names[spans.name[at]], Math.min(to, right) - left - 8);
        context.fillStyle = row.kind === "range" ? ink.ink : ink.on;
        context.fillText(name, left + 4, y + line / 2);
      }
      if (box > 3) {
        context.fillStyle = ink.card;
        context.fillRect(to - 0.5, y, 0.5, line - 1);
      }
    }
  }

  #density(row) {
    const { context } = this;
    const level = this.levelOf(row);
    const { step, bin, weight, cause } = level;
    const { causes, view } = this.shown;
    const full = row.full(level);
    if (step === this.timeline.bin && !this.timeline.finest && this.x(step) - this.x(0) >= COARSE_PX)
      this.coarse = true;
    const floor = this.#floor(row);
    let current = -1;
    let height = 0;
    for (let at = firstAt(bin, Math.floor(view[0] / step)); at < bin.length && bin[at] * step <= view[1]; at += 1) {
      if (bin[at] !== current) height = 0;
      current = bin[at];
      // Whole pixels: seams between steps would look like a pattern of the data.
      const from = Math.round(this.x(current * step));
      const to = Math.max(Math.round(this.x((current + 1) * step)), from + 1);
      const share = Math.min(weight[at] / full, 1 - height);
      if (share > 0) {
        context.globalAlpha = causes.length && !causes.includes(cause[at]) ? 0.16 : 1;
        context.fillStyle = this.causeColours[cause[at]];
        context.fillRect(from, floor - (height + share) * row.height, to - from, share * row.height);
      }
      height += share;
    }
    context.globalAlpha = 1;
  }

  #memory(row) {
    const { context } = this;
    const { time, level, style } = row.use;
    const most = Math.max(1, ...level);
    const floor = row.top + row.height;
    context.fillStyle = this.colours[style];
    context.globalAlpha = 0.75;
    for (let at = 0; at < time.length; at += 1) {
      const from = this.x(time[at]);
      const to = this.x(at + 1 < time.length ? time[at + 1] : this.timeline.span);
      const height = (level[at] / most) * (row.height - 2);
      if (height > 0) context.fillRect(from, floor - height, Math.max(to - from, 1), height);
    }
    context.globalAlpha = 1;
    this.#floor(row);
  }

  // From a wait to what the thread did that held it up; waits of a few pixels would hide what lies below.
  #arrows() {
    const { context, ink } = this;
    context.strokeStyle = ink.ink;
    context.fillStyle = ink.ink;
    context.lineWidth = 1;
    context.globalAlpha = 0.7;
    for (const { start, end, waiter, holder } of this.timeline.arrows) {
      const x = Math.round(this.x(end)) + 0.5;
      if (x - this.x(start) < LEAST_ARROW_PX || x < this.gutter || x > this.right) continue;
      const from = this.ends.get(waiter)?.wait;
      const to = this.ends.get(holder)?.work;
      if (!from || !to) continue;
      const down = to.top > from.top;
      const [y, tip] = down ? [from.top + from.height, to.top] : [from.top, to.top + to.height];
      const back = down ? -ARROW_PX : ARROW_PX;
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(x, tip);
      context.stroke();
      context.beginPath();
      context.moveTo(x, tip);
      context.lineTo(x - ARROW_PX / 2, tip + back);
      context.lineTo(x + ARROW_PX / 2, tip + back);
      context.fill();
    }
    context.globalAlpha = 1;
  }

  // The line that a row's bars stand on.
  #floor(row) {
    const floor = row.top + row.height;
    this.context.fillStyle = this.ink.line;
    this.context.fillRect(this.gutter, floor - 1, this.width, 1);
    return floor;
  }

  #cover(alpha, boxes) {
    const { context } = this;
    context.fillStyle = this.ink.card;
    context.globalAlpha = alpha;
    for (const [left, top, right, height] of boxes) context.fillRect(left, top, right - left, height);
    context.globalAlpha = 1;
  }

  #dimOtherRanges() {
    if (!this.shown.within) return;
    const { gutter, right, height } = this;
    const boxes = [];
    let reached = gutter;
    for (const [start, end] of this.shown.within) {
      const from = Math.min(this.x(start), right);
      if (from > reached) boxes.push([reached, TIME_AXIS_PX, from, height]);
      reached = Math.max(reached, this.x(end));
    }
    if (reached < right) boxes.push([reached, TIME_AXIS_PX, right, height]);
    this.#cover(0.66, boxes);
  }

  #dimOtherThreads() {
    const { threads } = this.shown;
    if (!threads.length) return;
    const boxes = [];
    let away = false;
    for (const row of this.rows) {
      const own = this.timeline.threads[row.title];
      if (row.kind === "heading") away = own !== undefined && !own.some((thread) => threads.includes(thread));
      else if (away) boxes.push([this.gutter, row.top, this.right, row.height]);
    }
    this.#cover(0.66, boxes);
  }

  #brush(span) {
    const { context, height } = this;
    const [from, to] = span.map((end) => this.x(end));
    this.#cover(0.62, [
      [this.gutter, TIME_AXIS_PX, from, height],
      [to, TIME_AXIS_PX, this.right, height],
    ]);
    context.fillStyle = this.ink.accent;
    context.fillRect(from - 1, TIME_AXIS_PX - 6, 1.5, height);
    context.fillRect(to, TIME_AXIS_PX - 6, 1.5, height);
  }
}
