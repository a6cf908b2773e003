// The current view as a picture: the same painter draws on a large canvas, or on elements of an SVG document.

import { svgElement } from "../core/dom.js";

const PNG_RATIO = 2;
const LARGEST = 16_000;
const CAPTION_PX = 28;
const SEAM_PX = 8;

// The few methods and properties of a canvas context that the painter uses.
class SvgContext {
  constructor(width, height) {
    this.svg = svgElement("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    this.globalAlpha = 1;
    this.top = 0;
    this.ruler = document.createElement("canvas").getContext("2d");
  }

  #add(tag, attributes, text) {
    const rounded = (value) => (typeof value === "number" ? +value.toFixed(2) : value);
    const node = svgElement(
      tag,
      Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name, rounded(value)])),
    );
    if (this.globalAlpha < 1) node.setAttribute("opacity", this.globalAlpha);
    if (text !== undefined) node.textContent = text;
    this.svg.append(node);
  }

  /** Down only: what a picture of several graphs needs. */
  translate(_, y) {
    this.top += y;
  }

  fillRect(x, y, width, height) {
    this.#add("rect", { x, y: y + this.top, width, height, fill: this.fillStyle });
  }

  strokeRect(x, y, width, height) {
    const line = { fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth };
    this.#add("rect", { x, y: y + this.top, width, height, ...line });
  }

  fillText(text, x, y) {
    const font = { "font-size": "12px", "font-family": this.font.replace(/^\S+ /, "") };
    this.#add("text", { x, y: y + this.top + 4, fill: this.fillStyle, ...font }, text);
  }

  measureText(text) {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }
}

/** The shown part of the view, all of its levels, as the text of an SVG file. */
export function asSvg(panel) {
  const picture = layOut(panel);
  const context = new SvgContext(picture.width, picture.height);
  paint(context, panel, picture);
  return new XMLSerializer().serializeToString(context.svg);
}

/** The same as a PNG blob. */
export function asPng(panel) {
  const picture = layOut(panel);
  const canvas = document.createElement("canvas");
  const ratio = Math.min(PNG_RATIO, LARGEST / picture.height);
  canvas.width = Math.round(picture.width * ratio);
  canvas.height = Math.round(picture.height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  paint(context, panel, picture);
  return new Promise((resolve) => {
    canvas.toBlob(resolve, "image/png");
  });
}

// One below the other: what the picture shows in words, the callers where there are any, the graph.
function layOut({ graph, upper, tables }) {
  let top = CAPTION_PX;
  const parts = (tables.callers ? [upper, graph] : [graph]).map((one) => {
    const part = { graph: one, top, box: whole(one) };
    top += part.box.height + SEAM_PX;
    return part;
  });
  return { width: graph.width, height: top, parts };
}

function paint(context, panel, { width, height, parts }) {
  const { style } = panel.painter;
  context.fillStyle = style.ground;
  context.fillRect(0, 0, width, height);
  context.font = style.font;
  context.textBaseline = "middle";
  context.fillStyle = style.outline;
  const words = [
    panel.page.title,
    ...parts.at(-1).graph.view.canvas.getAttribute("aria-label").split(": "),
    ...panel.controls.restrictions(),
  ];
  context.fillText(cut(context, words.join(" · "), width - 10), 5, CAPTION_PX / 2);
  let at = 0;
  for (const { graph, top, box } of parts) {
    context.translate(0, top - at);
    at = top;
    panel.painter.draw(context, graph.table, graph.span, box, graph.table.depthOf(graph.zoomed));
  }
}

function cut(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  return `${text.slice(0, Math.floor((text.length * width) / context.measureText(text).width) - 1)}…`;
}

export function download(content, type, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Put text on the clipboard; where the browser keeps a local file from it, by the old way. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

function whole(graph) {
  return { width: graph.width, height: graph.content, content: graph.content, scroll: 0, flame: graph.flame };
}
