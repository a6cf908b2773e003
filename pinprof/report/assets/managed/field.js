// Managed memory as a field: time to the right, one mark per migration in the colour of its cause, upwards by its size
// or downwards by its place. A prefetched run is a few large blocks; a fault storm a dense field of small ones inside
// the kernels.

import { byId, element } from "../core/dom.js";
import { formatBytes, formatCount, formatNs } from "../core/format.js";
import { themed } from "../core/theme.js";
import { fitCanvas, timeTicks, unpackSpans } from "../timeline/spans.js";

const FIELD_PX = 300;
const KERNEL_STRIP_PX = 16;
const FAULT_STRIP_PX = 10;
const FIELD_AXIS_PX = 24;
const LEAST_MARK_PX = 1.4;
const PAGE_POWER = 12;
const TOP_POWER = 21.6;
const SQUARE_PX = [2, 14];
const HEAT_ROWS = 64;
const HOVER_PX = 6;
const TO_HOST_ALPHA = 0.38;

export class FieldPanel {
  /** Migrations outside the chosen span or range step back; `linked` knows the ranges. */
  constructor(field, store, linked) {
    Object.assign(this, { field, store });
    this.passes = null;
    this.mode = "size";
    this.bySize = unpackSpans(field.bySize);
    this.byPlace = field.byPlace ? unpackSpans(field.byPlace) : this.bySize;
    this.kernels = unpackSpans(field.kernels);
    this.faults = unpackSpans(field.faults);
    this.canvas = byId("field");
    this.top =
      Math.log2(this.bySize.size.reduce((most, size, at) => Math.max(most, size / this.bySize.count[at]), 1)) + 0.6;
    this.buttons = [...document.querySelectorAll("[data-field]")];
    for (const button of this.buttons) {
      button.addEventListener("click", () => {
        this.mode = button.dataset.field;
        for (const other of this.buttons) other.setAttribute("aria-pressed", String(other === button));
        this.draw();
      });
    }
    this.canvas.addEventListener("pointermove", (event) => this.#hover(event));
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
    const filter = async (state) => {
      const instances = state.span || state.range >= 0 ? await linked.instances() : null;
      if (state !== store.state) return;
      this.passes = instances && instances.test(state);
      this.#legend();
      this.draw();
    };
    store.subscribe((state, before) => {
      if (state.span !== before.span || state.range !== before.range) filter(state);
    });
    filter(store.state);
    this.canvas.dataset.ready = "true";
  }

  // Whether a migration does not pass the filters.
  #isAway(at) {
    return this.passes !== null && !this.passes(this.field.start + this.moved.start[at]);
  }

  get moved() {
    return this.mode === "place" ? this.byPlace : this.bySize;
  }

  #legend() {
    const host = byId("field-legend");
    host.replaceChildren();
    const add = (level, text) => {
      const entry = element("span", "legend-entry");
      entry.append(element("span", `swatch l-${level}`), element("span", "", text));
      host.append(entry);
    };
    const count = this.field.styles.map(() => 0);
    const present = new Set(this.moved.style);
    this.moved.style.forEach((style, at) => {
      if (!this.#isAway(at)) count[style] += this.moved.count[at];
    });
    this.field.styles.forEach((style, at) => {
      if (present.has(at)) add(style.level, `${style.label} (${formatCount(count[at])})`);
    });
    if (this.moved.depth.includes(1)) host.append(element("span", "legend-entry", "pale: back to the host"));
    if (this.kernels.start.length) add("user", "a kernel runs");
  }

  draw() {
    const strips = KERNEL_STRIP_PX + (this.faults.start.length ? FAULT_STRIP_PX : 0);
    const height = strips + FIELD_PX + FIELD_AXIS_PX;
    const [context, width] = fitCanvas(this.canvas, height);
    if (!width) return;
    const narrow = width < 640;
    const left = narrow ? 58 : 74;
    const heat = narrow ? 34 : 80;
    this.plot = { left, top: strips, width: width - left - heat - 14, height: FIELD_PX };
    context.clearRect(0, 0, width, height);
    const { plot, field } = this;
    const x = (time) => plot.left + (time / field.span) * plot.width;
    this.#ground(context, x, strips);
    this.#labels(context, x);
    const colours = field.styles.map((style) => themed(`--level-${style.level}`));
    const { moved } = this;
    this.marks = moved.start.map((start, at) => this.#mark(at));
    context.save();
    context.beginPath();
    context.rect(plot.left, plot.top, plot.width, plot.height);
    context.clip();
    const gone = themed("--line");
    this.marks.forEach(([left, top, wide, high], at) => {
      const filled = moved.count[at] > 1 ? 0.3 + 0.7 * (moved.busy[at] / Math.max(moved.length[at], 1)) : 1;
      const away = this.#isAway(at);
      context.globalAlpha = away ? 1 : Math.min(filled, 1) * (moved.depth[at] ? TO_HOST_ALPHA : 1);
      context.fillStyle = away ? gone : colours[moved.style[at]];
      context.fillRect(left, top, wide, high);
    });
    context.restore();
    this.#heat(context, colours, plot.left + plot.width + 14, heat);
  }

  // [left, top, width, height] of a migration's mark: a square that grows with its size, or what it covers of the
  // memory. One that stands for several lies at their mean size.
  #mark(at) {
    const { plot, field, moved } = this;
    const left = plot.left + (moved.start[at] / field.span) * plot.width;
    const wide = Math.max((moved.length[at] / field.span) * plot.width, LEAST_MARK_PX);
    if (this.mode === "place") {
      const covered = Math.min(moved.size[at], field.extent - moved.place[at]);
      return [
        left,
        plot.top + (moved.place[at] / field.extent) * plot.height,
        wide,
        Math.max((covered / field.extent) * plot.height, LEAST_MARK_PX),
      ];
    }
    const part = this.#power(moved.size[at] / moved.count[at]);
    const side = SQUARE_PX[0] + part ** 4 * (SQUARE_PX[1] - SQUARE_PX[0]);
    return [left, plot.top + plot.height * (1 - part) - side / 2, Math.max(wide, side), side];
  }

  // Where a size lies between the bottom and the top of the field, 0 to 1.
  #power(size) {
    const least = PAGE_POWER - 0.6;
    const most = Math.max(TOP_POWER, this.top);
    return Math.min(Math.max((Math.log2(Math.max(size, 1)) - least) / (most - least), 0), 1);
  }

  // Behind the marks: the time of kernels, and above them kernels and groups of faults as strips.
  #ground(context, x, strips) {
    const { plot, kernels, faults } = this;
    const kernel = themed("--level-user");
    context.strokeStyle = themed("--line");
    context.strokeRect(plot.left - 0.5, plot.top - 0.5, plot.width + 1, plot.height + 1);
    kernels.start.forEach((start, at) => {
      const from = x(start);
      const wide = Math.max(x(start + kernels.length[at]) - from, 1);
      context.fillStyle = kernel;
      context.fillRect(from, 2, wide, KERNEL_STRIP_PX - 6);
      context.globalAlpha = 0.18;
      context.fillRect(from, plot.top, wide, plot.height);
      context.globalAlpha = 1;
    });
    context.fillStyle = themed("--level-fault");
    faults.start.forEach((start, at) => {
      context.fillRect(
        x(start),
        KERNEL_STRIP_PX - 2,
        Math.max((faults.length[at] / this.field.span) * plot.width, 1),
        FAULT_STRIP_PX - 3,
      );
    });
    context.fillStyle = themed("--soft");
    context.textAlign = "right";
    if (kernels.start.length) context.fillText("kernels", plot.left - 8, KERNEL_STRIP_PX / 2 - 1);
    if (faults.start.length) context.fillText("faults", plot.left - 8, KERNEL_STRIP_PX + FAULT_STRIP_PX / 2 - 2);
    context.textAlign = "left";
  }

  #labels(context, x) {
    const { plot, field } = this;
    context.fillStyle = themed("--soft");
    for (const [at, label] of timeTicks(0, field.span, plot.width, 84)) {
      const half = context.measureText(label).width / 2;
      context.fillText(
        label,
        Math.min(Math.max(x(at) - half, plot.left), plot.left + plot.width - 2 * half),
        plot.top + plot.height + 14,
      );
    }
    context.textAlign = "right";
    for (const [part, label] of this.mode === "place" ? this.#places() : this.#sizes()) {
      const y = plot.top + part * plot.height;
      context.fillText(label, plot.left - 8, Math.min(y, plot.top + plot.height - 6));
      if (this.mode === "size") context.fillRect(plot.left - 4, y, 4, 1);
    }
    context.textAlign = "left";
  }

  #places() {
    const { extent } = this.field;
    const step = 2 ** Math.ceil(Math.log2(extent / 6));
    return Array.from({ length: Math.floor(extent / step) }, (_, at) => [
      ((at + 1) * step) / extent,
      formatBytes((at + 1) * step),
    ]);
  }

  #sizes() {
    const ticks = [];
    for (let power = PAGE_POWER; power < Math.max(TOP_POWER, this.top); power += 3)
      ticks.push([1 - this.#power(2 ** power), formatBytes(2 ** power)]);
    return ticks;
  }

  // Beside the field: bytes moved by place or size, so that hot blocks and the usual size stand out.
  #heat(context, colours, left, width) {
    const { moved, plot } = this;
    const count = this.mode === "place" ? HEAT_ROWS : Math.ceil(Math.max(TOP_POWER, this.top) - PAGE_POWER) + 1;
    const rows = Array.from({ length: count }, () => colours.map(() => 0));
    for (let at = 0; at < moved.start.length; at += 1) {
      if (this.#isAway(at)) continue;
      const [first, last] = this.#heatRows(at, count);
      for (let row = first; row <= last; row += 1) rows[row][moved.style[at]] += moved.size[at] / (last - first + 1);
    }
    const most = Math.max(1, ...rows.map((row) => row.reduce((sum, part) => sum + part, 0)));
    const high = plot.height / count;
    rows.forEach((row, at) => {
      let from = left;
      const top =
        this.mode === "place"
          ? plot.top + at * high
          : plot.top + plot.height * (1 - this.#power(2 ** (PAGE_POWER + at))) - high / 2;
      row.forEach((part, style) => {
        context.fillStyle = colours[style];
        const wide = (part / most) * width;
        context.fillRect(from, top, wide, Math.max(high - 1, 0.6));
        from += wide;
      });
    });
    context.fillStyle = themed("--soft");
    if (width > context.measureText("bytes moved").width)
      context.fillText("bytes moved", left, plot.top + plot.height + 14);
  }

  #heatRows(at, count) {
    const { moved, field } = this;
    const mean = Math.max(moved.size[at] / moved.count[at], 1);
    if (this.mode === "size") {
      const row = Math.min(Math.max(Math.round(Math.log2(mean)) - PAGE_POWER, 0), count - 1);
      return [row, row];
    }
    const first = Math.min(Math.floor((moved.place[at] / field.extent) * count), count - 1);
    return [
      first,
      Math.max(first, Math.min(Math.floor(((moved.place[at] + mean - 1) / field.extent) * count), count - 1)),
    ];
  }

  #hover(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let found = -1;
    let least = HOVER_PX;
    this.marks.forEach(([left, top, wide, high], at) => {
      const away = Math.max(left - x, x - left - wide, 0) + Math.max(top - y, y - top - high, 0);
      if (away < least) {
        least = away;
        found = at;
      }
    });
    byId("field-detail").textContent = found < 0 ? "" : this.#words(found);
  }

  #words(at) {
    const { moved, field } = this;
    const many = moved.count[at] > 1 ? `${formatCount(moved.count[at])} migrations drawn as one, ` : "";
    const way = moved.depth[at] ? "to the host" : "to the device";
    return `${many}${formatBytes(moved.size[at])} ${way} · ${field.styles[moved.style[at]].label} · ${formatNs(moved.length[at])} at ${formatNs(moved.start[at])} · ${formatBytes(moved.place[at])} into the memory`;
  }
}
