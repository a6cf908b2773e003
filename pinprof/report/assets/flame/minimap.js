// The whole graph in a strip, with the part that is shown: drag the part to move it, drag elsewhere to choose another.

const HEIGHT = 34;
const EDGE = 4;
const STEPS = { ArrowLeft: -0.1, ArrowRight: 0.1, PageUp: -1, PageDown: 1 };

export class Minimap {
  /** `choose(from, to)` is called with positions while the reader drags. */
  constructor(canvas, choose) {
    Object.assign(this, { canvas, choose });
    this.context = canvas.getContext("2d");
    this.picture = document.createElement("canvas");
    new ResizeObserver(() => this.paint()).observe(canvas);
    canvas.addEventListener("pointerdown", (event) => this.#begin(event));
    canvas.addEventListener("pointermove", (event) => this.#drag(event));
    canvas.addEventListener("pointerup", (event) => this.#finish(event));
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  show(table, style) {
    Object.assign(this, { table, style });
    this.paint();
  }

  mark(span) {
    this.span = span;
    const [from, to] = span.map((end) => Math.round((100 * end) / (this.table.extent || 1)));
    this.canvas.setAttribute("aria-valuenow", String(from));
    this.canvas.setAttribute("aria-valuetext", `shows ${from} % to ${to} % of the width`);
    this.#compose();
  }

  // The picture is drawn once per table and theme; the frame around the shown part goes over it.
  paint() {
    this.width = this.canvas.clientWidth;
    if (!this.table || !this.width) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = this.picture.width = Math.round(this.width * ratio);
    this.canvas.height = this.picture.height = Math.round(HEIGHT * ratio);
    const context = this.picture.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.style.ground;
    context.fillRect(0, 0, this.width, HEIGHT);
    const { extent } = this.table;
    const scale = this.width / (extent || 1);
    const levels = this.table.deepest(0, extent, 1 / scale) + 1;
    const row = HEIGHT / Math.max(levels, 8);
    const rows = Math.min(levels, HEIGHT * 2);
    for (let line = 0; line < rows; line += 1) {
      const depth = Math.floor((line * levels) / rows);
      this.table.boxes(depth, 0, extent, 1 / scale, (node, start, end) => {
        context.fillStyle = this.style.fill(this.table, node);
        context.fillRect(start * scale, depth * row, Math.max((end - start) * scale, 1), Math.max(row, 0.5));
      });
    }
    this.#compose();
  }

  #compose() {
    if (!this.span || !this.width || !this.table) return;
    const { context, width } = this;
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.picture, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const [from, to] = this.span.map((end) => (end / (this.table.extent || 1)) * width);
    context.fillStyle = this.style.ground;
    context.globalAlpha = 0.68;
    context.fillRect(0, 0, from, HEIGHT);
    context.fillRect(to, 0, width - to, HEIGHT);
    context.globalAlpha = 1;
    if (to - from >= width - 1) return;
    context.strokeStyle = this.style.outline;
    context.lineWidth = 1.5;
    context.strokeRect(from + 0.75, 0.75, Math.max(to - from - 1.5, 2), HEIGHT - 1.5);
  }

  #position(event) {
    const part = (event.clientX - this.canvas.getBoundingClientRect().left) / this.width;
    return Math.min(Math.max(part, 0), 1) * this.table.extent;
  }

  #begin(event) {
    if (!this.table) return;
    this.canvas.setPointerCapture(event.pointerId);
    const at = this.#position(event);
    const [from, to] = this.span;
    const whole = to - from >= this.table.extent * 0.999;
    this.grip = { at, moved: false, span: !whole && at > from && at < to ? [from, to] : null };
  }

  #drag(event) {
    if (!this.grip) return;
    const at = this.#position(event);
    if (Math.abs(at - this.grip.at) * this.width < EDGE * this.table.extent && !this.grip.moved) return;
    this.grip.moved = true;
    if (!this.grip.span) this.choose(Math.min(at, this.grip.at), Math.max(at, this.grip.at));
    else this.#shift(this.grip.span, at - this.grip.at);
  }

  // A click outside the shown part brings that part here.
  #finish(event) {
    const { grip } = this;
    this.grip = null;
    if (!grip || grip.moved || grip.span) return;
    const [from, to] = this.span;
    this.#shift(this.span, this.#position(event) - (from + to) / 2);
  }

  #shift([from, to], way) {
    const allowed = Math.min(Math.max(way, -from), this.table.extent - to);
    this.choose(from + allowed, to + allowed);
  }

  #key(event) {
    const step = STEPS[event.key];
    if (step === undefined) return;
    event.preventDefault();
    this.#shift(this.span, step * (this.span[1] - this.span[0]));
  }
}
