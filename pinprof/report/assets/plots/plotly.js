// plotly, unpacked and started once, when the first plot comes into view.

import { inflatedText } from "../core/dom.js";
import { themed } from "../core/theme.js";

let started = null;

/** Resolves when plotly may be used; `source` is the path of a shared copy, empty for the one inside the page. */
export function startPlotly(source) {
  started ??= beginPlotly(source);
  return started;
}

// The policy of the page admits this one script by its hash (html.py).
async function beginPlotly(source) {
  const script = document.createElement("script");
  if (!source) {
    script.textContent = await inflatedText("plot-script");
    document.head.append(script);
    return;
  }
  await new Promise((resolve) => {
    script.addEventListener("load", resolve);
    script.src = source;
    document.head.append(script);
  });
}

/** Call `seen` once, when a node comes into view. */
export function whenSeen(node, seen) {
  const observer = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    seen();
  });
  observer.observe(node);
}

/** What all plots share: the page's ground, ink and type. */
export function plotStyle() {
  const line = themed("--line");
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: themed("--ink") },
    hoverlabel: { bgcolor: themed("--raised"), bordercolor: line, font: { color: themed("--ink") } },
  };
}
