// Managed memory back and forth: per 2 MiB block how often the direction of its migrations changed, in the order of the
// field's places.

import { fitCanvas } from "../core/canvas.js";
import { byId } from "../core/dom.js";
import { formatBytes, formatCount } from "../core/format.js";
import { themed } from "../core/theme.js";

const BLOCK_BYTES = 2 ** 21;
const BLOCKS_PX = 96;
const BLOCKS_AXIS_PX = 22;

export class BlocksPanel {
  /** `blocks` are columns; `extent` is the memory that ever moved, in bytes. */
  constructor({ blocks, extent }) {
    this.blocks = blocks;
    this.count = extent / BLOCK_BYTES;
    this.canvas = byId("blocks");
    this.most = Math.max(1, ...blocks.flips);
    const moved = blocks.flips.filter((flips) => flips > 0).length;
    this.summary = `${formatCount(moved)} of ${formatCount(this.count)} blocks changed direction, at most ${formatCount(this.most)} times.`;
    this.canvas.setAttribute("aria-label", this.summary);
    this.canvas.addEventListener("pointermove", (event) => this.#hover(event));
    this.canvas.addEventListener("pointerleave", () => this.#describe(-1));
    this.canvas.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
    this.draw();
    this.#describe(-1);
    this.canvas.dataset.ready = "true";
  }

  draw() {
    const [context, width] = fitCanvas(this.canvas, BLOCKS_PX + BLOCKS_AXIS_PX);
    if (!width) return;
    this.left = width < 640 ? 58 : 74;
    this.wide = width - this.left - 2;
    context.clearRect(0, 0, width, BLOCKS_PX + BLOCKS_AXIS_PX);
    context.strokeStyle = themed("--line");
    context.strokeRect(this.left - 0.5, 0.5, this.wide + 1, BLOCKS_PX);
    const step = this.wide / this.count;
    this.blocks.place.forEach((place, at) => {
      const high = (this.blocks.flips[at] / this.most) * (BLOCKS_PX - 8);
      context.fillStyle = themed(at === this.described ? "--accent" : "--level-fault");
      context.fillRect(this.left + place * step, BLOCKS_PX - high, Math.max(step - (step > 4 ? 1 : 0), 1), high);
    });
    context.fillStyle = themed("--soft");
    context.textAlign = "right";
    for (const flips of new Set([this.most, Math.round(this.most / 2)])) {
      if (flips)
        context.fillText(
          `${formatCount(flips)} ×`,
          this.left - 8,
          BLOCKS_PX - (flips / this.most) * (BLOCKS_PX - 8) + 4,
        );
    }
    const label = formatBytes(this.count * BLOCK_BYTES);
    context.fillText(label, this.left + this.wide, BLOCKS_PX + 13);
    context.textAlign = "left";
    context.fillText("0", this.left, BLOCKS_PX + 13);
  }

  #hover(event) {
    const part = (event.clientX - this.canvas.getBoundingClientRect().left - this.left) / this.wide;
    this.#describe(this.blocks.place.indexOf(Math.floor(part * this.count)));
  }

  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.#describe(Math.min(Math.max(this.described + step, 0), this.blocks.place.length - 1));
  }

  #describe(at) {
    const changed = this.described !== at;
    this.described = at;
    const { place, flips, to_device: down, to_host: up, faults } = this.blocks;
    byId("blocks-detail").textContent =
      at < 0
        ? this.summary
        : `${formatBytes(place[at] * BLOCK_BYTES)} into memory · ${formatCount(flips[at])} direction changes · ${formatBytes(down[at])} to the device, ${formatBytes(up[at])} to the host · ${formatCount(faults[at])} faults`;
    if (changed) this.draw();
  }
}
