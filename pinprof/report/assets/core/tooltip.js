// A box of words beside the pointer.

import { element } from "./dom.js";

/** Show a title and nodes right below a point, inside the window's width. */
export function showTip(tip, at, title, ...content) {
  tip.replaceChildren(element("strong", "", title), ...content);
  const { width } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(at.clientX + 12, document.documentElement.clientWidth - width - 8))}px`;
  tip.style.top = `${at.clientY + 18}px`;
}
