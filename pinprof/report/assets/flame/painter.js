// Draws a table on a canvas context, or on anything with the few methods used here (flame/export.js). What is closer together
// than a pixel is drawn once, and neighbours of one colour in one stroke: cost follows the window, not the tree.

export const ROW = 20;
const GAP = 1;
const NARROW = 3;
const MARK_EDGE = 2;
const MARK_DASH = 4;
const TEXT_FROM = 26;
const LONGEST_TEXT = 300;
const FADED = 0.3;
const ABOVE_ZOOM = 0.62;

export class Painter {
  /** `style` has the colours (flame/colouring.js) and `nameOf(frame)`. */
  constructor(style) {
    this.style = style;
    this.widths = new Map();
  }

  /**
   * Draw the levels of `table` that lie in `box` (width, height, scroll, content, flame) for the positions in `span`;
   * levels above `zoomDepth` are dimmed.
   */
  draw(context, table, span, box, zoomDepth) {
    context.fillStyle = this.style.ground;
    context.fillRect(0, 0, box.width, box.height);
    context.font = this.style.font;
    context.textBaseline = "middle";
    for (let depth = 0; depth < table.levels; depth += 1) {
      const y = rowTop(depth, box);
      if (y > box.height) {
        if (box.flame) continue;
        break;
      }
      if (y + ROW >= 0) this.#row(context, table, span, box.width, depth, y, depth < zoomDepth);
    }
  }

  #row(context, table, [from, to], width, depth, y, above) {
    const scale = width / (to - from);
    const { style } = this;
    let pending = null;
    const flush = () => {
      if (!pending) return;
      context.globalAlpha = pending.alpha;
      context.fillStyle = pending.fill;
      context.fillRect(pending.left, y, pending.right - pending.left, ROW - GAP);
      pending = null;
    };
    table.boxes(depth, from, to, 1 / scale, (node, start, end) => {
      const left = Math.max((start - from) * scale, 0);
      const right = Math.min((end - from) * scale, width);
      const mark = table.markOf(node);
      const alpha = mark === 0 ? FADED : above ? ABOVE_ZOOM : 1;
      const fill = mark === 2 ? style.match : style.fill(table, node);
      if (right - left < NARROW) {
        const edge = Math.max(right, left + 1);
        if (pending && pending.fill === fill && pending.alpha === alpha && left - pending.right < 1)
          pending.right = edge;
        else {
          flush();
          pending = { left, right: edge, fill, alpha };
        }
        return;
      }
      flush();
      context.globalAlpha = alpha;
      context.fillStyle = fill;
      context.fillRect(left, y, right - left - GAP, ROW - GAP);
      this.#markSide(context, style.markOf(table, node), left, right - left - GAP, y);
      if (right - left < TEXT_FROM) return;
      const text = this.#fitted(context, style.nameOf(table.frameOf(node)), table.frameOf(node), right - left - 10);
      if (!text) return;
      context.globalAlpha = 1;
      context.fillStyle = mark === 0 ? style.fadedInk : mark === 2 ? style.matchInk : style.ink;
      context.fillText(text, left + 5, y + ROW / 2);
    });
    flush();
    context.globalAlpha = 1;
  }

  // What one side of a comparison alone has: a dashed edge where it is gone, a whole one where it is new.
  #markSide(context, mark, left, width, y) {
    if (!mark) return;
    context.fillStyle = this.style.outline;
    const edge = y + ROW - GAP - MARK_EDGE;
    if (mark > 0) context.fillRect(left, edge, width, MARK_EDGE);
    else
      for (let at = 0; at < width; at += 2 * MARK_DASH)
        context.fillRect(left + at, edge, Math.min(MARK_DASH, width - at), MARK_EDGE);
  }

  /** Frame a node. */
  outline(context, table, node, [from, to], box, line) {
    const scale = box.width / (to - from);
    const left = Math.max(0, (table.startOf(node) - from) * scale);
    const right = Math.min(box.width, (table.startOf(node) + table.totalOf(node) - from) * scale);
    if (right <= left) return;
    context.strokeStyle = this.style.outline;
    context.lineWidth = line;
    context.strokeRect(left + 0.5, rowTop(table.depthOf(node), box) + 0.5, Math.max(right - left - 1.5, 1), ROW - 2);
  }

  #fitted(context, name, frame, room) {
    const text = name.length > LONGEST_TEXT ? name.slice(0, LONGEST_TEXT) : name;
    let width = this.widths.get(frame);
    if (width === undefined) {
      width = context.measureText(text).width;
      this.widths.set(frame, width);
    }
    if (width <= room) return text;
    for (let kept = Math.floor((text.length * room) / width) - 1; kept > 1; kept -= 1) {
      const cut = `${text.slice(0, kept)}…`;
      if (context.measureText(cut).width <= room) return cut;
    }
    return "";
  }
}

/** Where a level lies: from the top down, or in a flame from the bottom up. */
export function rowTop(depth, box) {
  return (box.flame ? box.content - (depth + 1) * ROW : depth * ROW) - box.scroll;
}

/** The level at a height. */
export function depthAt(y, box) {
  return Math.floor((box.flame ? box.content - (y + box.scroll) : y + box.scroll) / ROW);
}
