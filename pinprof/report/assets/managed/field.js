// Managed memory as a field: time to the right, one mark per migration in the colour of its cause, upwards by its size
// or downwards by its place. A prefetched run is a few large blocks; a fault storm a dense field of small ones inside
// the kernels.

import { byId, element, swatchEntry } from "../core/dom.js";
import { formatBytes, formatCount, formatNs } from "../core/format.js";
import { unpackSpans } from "../timeline/spans.js";
import { FieldPainter } from "./fieldpainter.js";

const HOVER_PX = 6;

export class FieldPanel {
  /** Migrations outside the chosen span or range step back; `views` has the single ranges. */
  constructor(field, store, views) {
    Object.assign(this, { field });
    this.passes = null;
    this.bySize = unpackSpans(field.bySize);
    this.byPlace = field.byPlace ? unpackSpans(field.byPlace) : this.bySize;
    this.moved = this.bySize;
    this.kernels = unpackSpans(field.kernels);
    const largest = this.bySize.size.reduce((most, size, at) => Math.max(most, size / this.bySize.count[at]), 1);
    this.painter = new FieldPainter(field, { kernels: this.kernels, faults: unpackSpans(field.faults), largest });
    this.canvas = byId("field");
    this.#watchMode();
    this.canvas.addEventListener("pointermove", (event) => this.#hover(event));
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
    store.follow(["span", "range"], async (state) => {
      const instances = state.span || state.range >= 0 ? await views.instances() : null;
      if (state.span !== store.state.span || state.range !== store.state.range) return;
      this.passes = instances?.test(state);
      this.#legend();
      this.draw();
    });
    this.canvas.dataset.ready = "true";
  }

  #watchMode() {
    this.mode = "size";
    const buttons = [...document.querySelectorAll("[data-field]")];
    for (const button of buttons) {
      button.addEventListener("click", () => {
        this.mode = button.dataset.field;
        this.moved = this.mode === "place" ? this.byPlace : this.bySize;
        for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
        this.draw();
      });
    }
  }

  // Whether a migration does not pass the filters.
  #isAway(at) {
    return Boolean(this.passes) && !this.passes(this.field.start + this.moved.start[at]);
  }

  #legend() {
    const { moved, field } = this;
    const entries = [];
    const add = (level, text) => entries.push(swatchEntry("legend-entry", `l-${level}`, element("span", "", text)));
    const count = field.styles.map(() => 0);
    const present = new Set(moved.style);
    moved.style.forEach((style, at) => {
      if (!this.#isAway(at)) count[style] += moved.count[at];
    });
    field.styles.forEach((style, at) => {
      if (present.has(at)) add(style.level, `${style.label} (${formatCount(count[at])})`);
    });
    if (moved.depth.includes(1)) entries.push(element("span", "legend-entry", "pale: to the host"));
    if (this.kernels.start.length) add("user", "a kernel runs");
    byId("field-legend").replaceChildren(...entries);
  }

  draw() {
    this.painter.draw(this.canvas, this.moved, { byPlace: this.mode === "place", away: (at) => this.#isAway(at) });
  }

  #hover(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let nearest = -1;
    let least = HOVER_PX;
    this.painter.marks.forEach(([left, top, wide, high], at) => {
      const away = Math.max(left - x, x - left - wide, 0) + Math.max(top - y, y - top - high, 0);
      if (away < least) {
        least = away;
        nearest = at;
      }
    });
    byId("field-detail").textContent = nearest < 0 ? "" : this.#words(nearest);
  }

  #words(at) {
    const { moved, field } = this;
    const many = moved.count[at] > 1 ? `${formatCount(moved.count[at])} migrations merged, ` : "";
    const way = moved.depth[at] ? "to the host" : "to the device";
    const facts = [
      `${many}${formatBytes(moved.size[at])} ${way}`,
      field.styles[moved.style[at]].label,
      `${formatNs(moved.length[at])} at ${formatNs(moved.start[at])}`,
      `${formatBytes(moved.place[at])} into memory`,
    ];
    return facts.join(" · ");
  }
}
