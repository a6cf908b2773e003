// What every page with sections and drawings does: its links, its way onto paper, the source of its worker.

import { byId } from "./dom.js";

/** How many there are of what the address may name by number. */
export function sizesOf(page) {
  const { dsos, frames, threads } = page.flame.facts;
  const functions = Object.fromEntries(["sandwich", "focus", "hide", "drop", "fold"].map((key) => [key, frames]));
  return {
    ...functions,
    event: page.events.length,
    // Samples without times cannot be filtered by range.
    range: page.timed || !threads ? page.ranges.length : 0,
    dsos,
    modules: dsos,
    threads: page.threads.length,
    opportunity: page.opportunities?.length ?? 0,
    modes: 3,
  };
}

/** Links to sections scroll without replacing the state in the address. */
export function startSections() {
  for (const link of document.querySelectorAll(".sections a")) {
    link.addEventListener("click", (event) => {
      if (!location.hash.includes("=")) return;
      event.preventDefault();
      document.querySelector(link.getAttribute("href")).scrollIntoView();
    });
  }
}

/** On paper the light theme, whichever is chosen. */
export function startPrinting(redraw) {
  const root = document.documentElement;
  let chosen = root.dataset.theme;
  const show = (theme) => {
    root.dataset.theme = theme;
    redraw();
  };
  window.addEventListener("beforeprint", () => {
    chosen = root.dataset.theme;
    show("light");
  });
  window.addEventListener("afterprint", () => show(chosen));
}

/** Where many pages share a script it is a function, and its text is the function's. */
export function scriptText() {
  return globalThis.pinprofPage ? `(${globalThis.pinprofPage})();` : byId("page-script").textContent;
}
