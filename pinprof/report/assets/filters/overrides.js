// Places of the page that show something else while a filter is active, and what stood there before.

export class Patches {
  constructor() {
    this.before = new Map();
  }

  /** Show text or nodes in a place. */
  set(place, ...content) {
    if (!place) return;
    if (!this.before.has(place)) this.before.set(place, [...place.childNodes]);
    place.replaceChildren(...content);
  }

  /** Set an attribute; null takes it away. */
  attribute(place, name, value) {
    this.#keep(place, name);
    if (value === null) place.removeAttribute(name);
    else place.setAttribute(name, value);
  }

  #keep(place, name) {
    if (!this.attributes) this.attributes = new Map();
    const known = this.attributes.get(place) ?? new Map();
    this.attributes.set(place, known);
    if (!known.has(name)) known.set(name, place.getAttribute(name));
  }

  /** Everything as it came. */
  restore() {
    for (const [place, content] of this.before) place.replaceChildren(...content);
    this.before.clear();
    for (const [place, known] of this.attributes ?? []) {
      for (const [name, value] of known) {
        if (value === null) place.removeAttribute(name);
        else place.setAttribute(name, value);
      }
    }
    this.attributes = null;
  }
}

const DRAWING = "http://www.w3.org/2000/svg";

/** A bar of parts, each {share, className, cause, title, faded}: shares of the whole width. */
export function barOf(parts, height, label) {
  const bar = document.createElementNS(DRAWING, "svg");
  const set = (node, attributes) => {
    for (const [name, value] of Object.entries(attributes)) if (value !== undefined) node.setAttribute(name, value);
    return node;
  };
  set(bar, { class: "bar", role: "img", "aria-label": label, width: "100%", height });
  let at = 0;
  for (const { share, className, cause, title, off } of parts) {
    const part = set(document.createElementNS(DRAWING, "rect"), {
      class: `seg ${className}${off ? " off" : ""}`,
      x: `${(100 * at).toFixed(3)}%`,
      y: 0,
      width: `${(100 * share).toFixed(3)}%`,
      height,
      "data-cause": cause,
      "data-title": title,
    });
    bar.append(part);
    at += share;
  }
  return bar;
}

/** The spread of some calls: a line from the fastest to the slowest, the median on it, and the three as figures. */
export function spreadOf([least, median, most], format) {
  const mark = document.createElementNS(DRAWING, "svg");
  for (const [name, value] of Object.entries({
    class: "spread-mark",
    role: "img",
    "aria-label": "Spread of the calls, from 0 to the slowest",
    width: "100%",
    height: 10,
  }))
    mark.setAttribute(name, value);
  const add = (className, from, width, y, height) => {
    const part = document.createElementNS(DRAWING, "rect");
    for (const [name, value] of Object.entries({
      class: className,
      x: `${((96 * from) / Math.max(most, 1)).toFixed(2)}%`,
      width,
      y,
      height,
    }))
      part.setAttribute(name, value);
    mark.append(part);
  };
  add("spread-track", 0, "96%", 4.5, 1);
  add("spread-line", least, `${((96 * (most - least)) / Math.max(most, 1)).toFixed(2)}%`, 4, 2);
  add("spread-end", least, 1.5, 2, 6);
  add("spread-median", median, 3, 0, 10);
  add("spread-end", most, 1.5, 2, 6);
  const figures = document.createElement("span");
  figures.className = "spread-figures";
  const middle = document.createElement("b");
  middle.textContent = format(median);
  figures.append(`${format(least)} · `, middle, ` · ${format(most)}`);
  return [mark, figures];
}
