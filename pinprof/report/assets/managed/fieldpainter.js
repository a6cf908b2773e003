// Draws the field of migrations: time to the right, one mark per migration in the colour of its cause, above it kernels
// and faults as strips, beside it how much was moved.

import { fitCanvas } from "../core/canvas.js";
import { formatBytes } from "../core/format.js";
import { themed } from "../core/theme.js";
import { timeTicks } from "../timeline/spans.js";

const FIELD_PX = 300;
const KERNEL_STRIP_PX = 16;
const FAULT_STRIP_PX = 10;
const FIELD_AXIS_PX = 24;
const HEAT_GAP_PX = 14;
const LEAST_MARK_PX = 1.4;
const PAGE_POWER = 12;
const TOP_POWER = 21.6;
const SQUARE_PX = [2, 14];
const HEAT_ROWS = 64;
const TO_HOST_ALPHA = 0.38;

export class FieldPainter {
  /** `kernels` and `faults` as `unpackSpans` gives them; `largest` is the largest migration in bytes. */
  constructor(field, { kernels, faults, largest }) {
    Object.assign(this, { field, kernels, faults });
    this.leastPower = PAGE_POWER - 0.6;
    this.mostPower = Math.max(TOP_POWER, Math.log2(largest) + 0.6);
  }

  /** Draw `moved`, migrations, upwards by size or, `byPlace`, downwards by place; those that are `away` step back. */
  draw(canvas, moved, { byPlace, away }) {
    const strips = KERNEL_STRIP_PX + (this.faults.start.length ? FAULT_STRIP_PX : 0);
    const height = strips + FIELD_PX + FIELD_AXIS_PX;
    const [context, width] = fitCanvas(canvas, height);
    if (!width) return;
    const narrow = width < 640;
    const left = narrow ? 58 : 74;
    const heat = narrow ? 34 : 80;
    this.plot = { left, top: strips, width: width - left - heat - HEAT_GAP_PX, height: FIELD_PX };
    Object.assign(this, { context, moved, byPlace, away });
    this.colours = this.field.styles.map((style) => themed(`--level-${style.level}`));
    context.clearRect(0, 0, width, height);
    this.#ground();
    this.#labels();
    this.#marks();
    this.#heat(left + this.plot.width + HEAT_GAP_PX, heat);
  }

  #x(time) {
    return this.plot.left + this.#wide(time);
  }

  #wide(length) {
    return (length / this.field.span) * this.plot.width;
  }

  #marks() {
    const { context, plot, moved } = this;
    context.save();
    context.beginPath();
    context.rect(plot.left, plot.top, plot.width, plot.height);
    context.clip();
    const gone = themed("--line");
    this.marks = Array.from(moved.start, (_, at) => this.#mark(at));
    this.marks.forEach((box, at) => {
      const filled = moved.count[at] > 1 ? 0.3 + 0.7 * (moved.busy[at] / Math.max(moved.length[at], 1)) : 1;
      const away = this.away(at);
      context.globalAlpha = away ? 1 : Math.min(filled, 1) * (moved.depth[at] ? TO_HOST_ALPHA : 1);
      context.fillStyle = away ? gone : this.colours[moved.style[at]];
      context.fillRect(...box);
    });
    context.restore();
  }

  // [left, top, width, height] of a migration's mark: a square that grows with its size, or what it covers of the
  // memory. One that stands for several lies at their mean size.
  #mark(at) {
    const { plot, field, moved } = this;
    const left = this.#x(moved.start[at]);
    const wide = Math.max(this.#wide(moved.length[at]), LEAST_MARK_PX);
    if (this.byPlace) {
      const scale = plot.height / field.extent;
      const covered = Math.min(moved.size[at], field.extent - moved.place[at]);
      return [left, plot.top + moved.place[at] * scale, wide, Math.max(covered * scale, LEAST_MARK_PX)];
    }
    const part = this.#power(moved.size[at] / moved.count[at]);
    const side = SQUARE_PX[0] + part ** 4 * (SQUARE_PX[1] - SQUARE_PX[0]);
    return [left, plot.top + plot.height * (1 - part) - side / 2, Math.max(wide, side), side];
  }

  // Where a size lies between the bottom and the top of the field, 0 to 1.
  #power(size) {
    const part = (Math.log2(Math.max(size, 1)) - this.leastPower) / (this.mostPower - this.leastPower);
    return Math.min(Math.max(part, 0), 1);
  }

  // Behind the marks: the time of kernels, and above them kernels and groups of faults as strips.
  #ground() {
    const { context, plot, kernels, faults } = this;
    const kernel = themed("--level-user");
    context.strokeStyle = themed("--line");
    context.strokeRect(plot.left - 0.5, plot.top - 0.5, plot.width + 1, plot.height + 1);
    context.fillStyle = kernel;
    kernels.start.forEach((start, at) => {
      const from = this.#x(start);
      const wide = Math.max(this.#x(start + kernels.length[at]) - from, 1);
      context.fillRect(from, 2, wide, KERNEL_STRIP_PX - 6);
      context.globalAlpha = 0.18;
      context.fillRect(from, plot.top, wide, plot.height);
      context.globalAlpha = 1;
    });
    context.fillStyle = themed("--level-fault");
    faults.start.forEach((start, at) => {
      const wide = Math.max(this.#wide(faults.length[at]), 1);
      context.fillRect(this.#x(start), KERNEL_STRIP_PX - 2, wide, FAULT_STRIP_PX - 3);
    });
    context.fillStyle = themed("--soft");
    context.textAlign = "right";
    if (kernels.start.length) context.fillText("kernels", plot.left - 8, KERNEL_STRIP_PX / 2 - 1);
    if (faults.start.length) context.fillText("faults", plot.left - 8, KERNEL_STRIP_PX + FAULT_STRIP_PX / 2 - 2);
    context.textAlign = "left";
  }

  #labels() {
    const { context, plot } = this;
    const bottom = plot.top + plot.height;
    context.fillStyle = themed("--soft");
    for (const [at, label] of timeTicks(0, this.field.span, plot.width, 84)) {
      const half = context.measureText(label).width / 2;
      const left = Math.min(Math.max(this.#x(at) - half, plot.left), plot.left + plot.width - 2 * half);
      context.fillText(label, left, bottom + 14);
    }
    context.textAlign = "right";
    for (const [part, label] of this.byPlace ? this.#places() : this.#sizes()) {
      const y = plot.top + part * plot.height;
      context.fillText(label, plot.left - 8, Math.min(y, bottom - 6));
      if (!this.byPlace) context.fillRect(plot.left - 4, y, 4, 1);
    }
    context.textAlign = "left";
  }

  // [part of the field's height, label] of every tick.
  #places() {
    const { extent } = this.field;
    const step = 2 ** Math.ceil(Math.log2(extent / 6));
    const ticks = Array.from({ length: Math.floor(extent / step) }, (_, at) => (at + 1) * step);
    return ticks.map((place) => [place / extent, formatBytes(place)]);
  }

  #sizes() {
    const ticks = [];
    for (let power = PAGE_POWER; power < this.mostPower; power += 3) {
      ticks.push([1 - this.#power(2 ** power), formatBytes(2 ** power)]);
    }
    return ticks;
  }

  // Beside the field: bytes moved by place or size, so that hot blocks and the usual size stand out.
  #heat(left, width) {
    const { context, moved, plot, colours } = this;
    const count = this.byPlace ? HEAT_ROWS : Math.ceil(this.mostPower - PAGE_POWER) + 1;
    const rows = Array.from({ length: count }, () => colours.map(() => 0));
    for (let at = 0; at < moved.start.length; at += 1) {
      if (this.away(at)) continue;
      const [first, last] = this.#heatRows(at, count);
      for (let row = first; row <= last; row += 1) rows[row][moved.style[at]] += moved.size[at] / (last - first + 1);
    }
    const most = Math.max(1, ...rows.map((row) => row.reduce((sum, part) => sum + part, 0)));
    const high = plot.height / count;
    rows.forEach((row, at) => {
      let from = left;
      const middle = plot.height * (1 - this.#power(2 ** (PAGE_POWER + at)));
      const top = plot.top + (this.byPlace ? at * high : middle - high / 2);
      row.forEach((part, style) => {
        context.fillStyle = colours[style];
        const wide = (part / most) * width;
        context.fillRect(from, top, wide, Math.max(high - 1, 0.6));
        from += wide;
      });
    });
    context.fillStyle = themed("--soft");
    const title = "bytes moved";
    if (width > context.measureText(title).width) context.fillText(title, left, plot.top + plot.height + 14);
  }

  #heatRows(at, count) {
    const { moved, field } = this;
    const mean = Math.max(moved.size[at] / moved.count[at], 1);
    const bounded = (row) => Math.min(Math.max(row, 0), count - 1);
    if (!this.byPlace) {
      const row = bounded(Math.round(Math.log2(mean)) - PAGE_POWER);
      return [row, row];
    }
    const rowOf = (place) => bounded(Math.floor((place / field.extent) * count));
    return [rowOf(moved.place[at]), rowOf(moved.place[at] + mean - 1)];
  }
}
