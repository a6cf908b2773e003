// The current view as a picture: the same painter draws on a large canvas, or on elements of an SVG document.

import { ROW } from "./painter.js";

const SVG = "http://www.w3.org/2000/svg";
const PNG_RATIO = 2;
const LARGEST = 16_000;

// The few methods and properties of a canvas context that the painter uses.
class SvgContext {
  constructor(width, height) {
    this.svg = document.implementation.createDocument(SVG, "svg").documentElement;
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) this.svg.setAttribute(name, value);
    this.globalAlpha = 1;
    this.ruler = document.createElement("canvas").getContext("2d");
  }

  #add(tag, attributes, text) {
    const node = this.svg.ownerDocument.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, typeof value === "number" ? +value.toFixed(2) : value);
    if (this.globalAlpha < 1) node.setAttribute("opacity", this.globalAlpha);
    if (text !== undefined) node.textContent = text;
    this.svg.append(node);
  }

  fillRect(x, y, width, height) {
    this.#add("rect", { x, y, width, height, fill: this.fillStyle });
  }

  strokeRect(x, y, width, height) {
    this.#add("rect", { x, y, width, height, fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth });
  }

  fillText(text, x, y) {
    this.#add("text", { x, y: y + 4, fill: this.fillStyle, "font-size": "12px", "font-family": this.font.replace(/^\S+ /, "") }, text);
  }

  measureText(text) {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }
}

/** The shown part of a graph, all of its levels, as the text of an SVG file. */
export function asSvg(graph, painter) {
  const box = whole(graph);
  const context = new SvgContext(box.width, box.height);
  painter.draw(context, graph.table, graph.span, box, graph.table.depthOf(graph.zoomed));
  return new XMLSerializer().serializeToString(context.svg);
}

/** The same as a PNG blob. */
export function asPng(graph, painter) {
  const box = whole(graph);
  const canvas = document.createElement("canvas");
  const ratio = Math.min(PNG_RATIO, LARGEST / box.height);
  canvas.width = Math.round(box.width * ratio);
  canvas.height = Math.round(box.height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  painter.draw(context, graph.table, graph.span, box, graph.table.depthOf(graph.zoomed));
  return new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
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
  return { width: graph.width, height: graph.content, content: graph.content, scroll: 0, flame: graph.flame, row: ROW };
}
