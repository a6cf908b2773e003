// The page of several recordings: an overview, and each recording's own page in a frame that is made when first shown.

import { byId, inflatedText } from "./core/dom.js";
import { startFitting } from "./core/fitting.js";
import { startPrinting } from "./core/pages.js";
import { startTheme } from "./core/theme.js";

const PLOT_PLACE = "@plot-script@";
const tabs = [...byId("recordings").querySelectorAll("[role=tab]")];

async function fill(number) {
  const place = byId(`frame-${number}`);
  if (place.firstChild) return;
  const frame = document.createElement("iframe");
  frame.title = tabs[number].textContent;
  place.append(frame);
  const text = await inflatedText(`page-${number}`);
  const page = text.replace(PLOT_PLACE, () => byId("plot-script").textContent);
  frame.src = URL.createObjectURL(new Blob([page], { type: "text/html" }));
}

function show(number) {
  const chosen = Number.isInteger(number) && tabs[number] ? number : 0;
  byId("overview").hidden = chosen !== 0;
  for (const [index, tab] of tabs.entries()) {
    tab.setAttribute("aria-selected", String(index === chosen));
    tab.tabIndex = index === chosen ? 0 : -1;
    if (index) byId(`frame-${index}`).hidden = index !== chosen;
  }
  if (chosen) fill(chosen);
}

function choose(number) {
  history.replaceState(null, "", number ? `#${number}` : " ");
  show(number);
}

startFitting();

startTheme(byId("theme"), () => {});
startPrinting(() => {});
for (const button of document.querySelectorAll("[data-page]")) {
  button.addEventListener("click", () => choose(Number(button.dataset.page)));
}
byId("recordings").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const next = (tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length;
  tabs[next].focus();
  choose(next);
});
window.addEventListener("hashchange", () => show(Number(location.hash.slice(1))));
show(Number(location.hash.slice(1)));
