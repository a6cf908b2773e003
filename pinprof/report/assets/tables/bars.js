// Small drawings in tables: bars of parts, and the spread of some calls.

import { element, svgElement } from "../core/dom.js";

/** A bar of parts, each {share, className, cause, title, off}: shares of the whole width. */
export function barOf(parts, height, label) {
  const bar = svgElement("svg", { class: "bar", role: "img", "aria-label": label, width: "100%", height });
  let at = 0;
  for (const { share, className, cause, title, off } of parts) {
    const [x, width] = [at, share].map((part) => `${(100 * part).toFixed(3)}%`);
    const classes = `seg ${className}${off ? " off" : ""}`;
    bar.append(
      svgElement("rect", { class: classes, x, y: 0, width, height, "data-cause": cause, "data-title": title }),
    );
    at += share;
  }
  return bar;
}

/** The spread of some calls: a line from the fastest to the slowest, the median on it, and the three as figures. */
export function spreadOf([least, median, most], format) {
  const label = "Spread of the calls, from 0 to the slowest";
  const mark = svgElement("svg", { class: "spread-mark", role: "img", "aria-label": label, width: "100%", height: 10 });
  const part = (value) => `${((96 * value) / Math.max(most, 1)).toFixed(2)}%`;
  const add = (className, from, width, y, height) => {
    mark.append(svgElement("rect", { class: className, x: part(from), width, y, height }));
  };
  add("spread-track", 0, "96%", 4.5, 1);
  add("spread-line", least, part(most - least), 4, 2);
  add("spread-end", least, 1.5, 2, 6);
  add("spread-median", median, 3, 0, 10);
  add("spread-end", most, 1.5, 2, 6);
  const figures = element("span", "spread-figures");
  figures.append(`${format(least)} · `, element("b", "", format(median)), ` · ${format(most)}`);
  return [mark, figures];
}
