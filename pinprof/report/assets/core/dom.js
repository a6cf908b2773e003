// What the page carries inside itself: JSON in script elements, and gzip in base64.

import { gunzip } from "./columns.js";

export function byId(id) {
  return document.getElementById(id);
}

export function readJson(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

/** The bytes of a base64 script element. */
export function embedded(id) {
  const text = document.getElementById(id).textContent;
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index += 1) bytes[index] = binary.charCodeAt(index);
  return bytes;
}

/** The text of a gzip + base64 script element. */
export async function inflatedText(id) {
  return new TextDecoder().decode(await gunzip(embedded(id)));
}

/** An element with a class and text; text never becomes markup. */
export function element(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

/** A button that calls `press` when it is pressed. */
export function makeButton(className, text, title, press) {
  const button = element("button", className, text);
  button.type = "button";
  if (title) button.title = title;
  button.addEventListener("click", press);
  return button;
}

const SVG = "http://www.w3.org/2000/svg";

/** An element of an SVG picture; attributes that are undefined are left out. */
export function svgElement(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) node.setAttribute(name, value);
  return node;
}

/** A coloured square, and beside it what it stands for. */
export function swatchEntry(className, colour, ...content) {
  const entry = element("span", className);
  entry.append(element("span", `swatch ${colour}`), ...content);
  return entry;
}
