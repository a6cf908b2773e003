// What does not fit its place: labels in narrow bars are left out, tables that reach beyond their place say so, and long
// pages are cut.

import { startBounding } from "./bounding.js";

const PADDING = 16;

/** Hide each label of a bar that is wider than its part of the bar. */
export function fitLabels(bar) {
  const whole = bar.clientWidth || bar.getBoundingClientRect().width;
  for (const label of bar.querySelectorAll(".label, .parts > svg")) {
    const room = (whole * Number.parseFloat(label.getAttribute("width"))) / 100 - PADDING;
    for (const text of label.querySelectorAll("text")) {
      text.style.visibility = text.getComputedTextLength() > room ? "hidden" : "";
    }
  }
}

/** Do so whenever the window, the font or what is shown changes a size. */
export function startFitting() {
  const watch = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.matches(".bar, .parts")) fitLabels(target);
      else target.classList.toggle("wider", target.scrollWidth > target.clientWidth + 1);
    }
  });
  for (const bar of document.querySelectorAll(".bar:has(.label), .parts")) watch.observe(bar);
  for (const place of document.querySelectorAll(".scroll, .sections")) watch.observe(place);
  startBounding();
}
