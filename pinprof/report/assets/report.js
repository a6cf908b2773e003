// Brings the finished page to life: which event is shown, what is filtered, the theme, hints and copying. Nothing here
// computes results. In the worker made of this script (engine/engine.js) there is no document: there it answers questions.

import { startCopying } from "./core/copying.js";
import { byId, element, inflatedText, readJson } from "./core/dom.js";
import { startFitting } from "./core/fitting.js";
import { startFramed } from "./core/framed.js";
import { scriptText, sizesOf, startPrinting, startSections } from "./core/pages.js";
import { Store } from "./core/store.js";
import { startTheme } from "./core/theme.js";
import { showTip } from "./core/tooltip.js";
import { serve } from "./engine/engine.js";
import { FilterStrip } from "./filters/chips.js";
import { startCauses, startEvents, startLines } from "./filters/pressed.js";
import { FilteredViews } from "./filters/views.js";
import { FlamePanel } from "./flame/panel.js";
import { BlocksPanel } from "./managed/blocks.js";
import { FieldPanel } from "./managed/field.js";
import { Chart } from "./plots/chart.js";
import { Plots } from "./plots/figures.js";
import { TimelinePanel } from "./timeline/panel.js";

if (typeof document === "undefined") serve();
else startPage(readJson("page-data"));

function startPage(page) {
  const store = new Store({ causes: page.causes.map((cause) => cause.key) }, sizesOf(page));
  const chart = byId("chart") ? new Chart(page, () => views.measured()) : null;
  const flame = byId("flame") ? new FlamePanel(page, store, scriptText()) : null;
  const plots = new Plots(page.plots);
  const drawn = [];
  const redraw = () => {
    flame?.recolour();
    plots.recolour();
    for (const panel of drawn) panel.draw();
    chart?.draw();
  };
  startFitting();
  startFramed();
  startTheme(byId("theme"), redraw);
  startPrinting(redraw);
  startEvents(store);
  startCauses(store);
  startOpportunities(page, store);
  startLines(store);
  startSections();
  startHints(page);
  startCopying();
  flame?.start();
  new FilterStrip(page, store);
  const views = new FilteredViews(page, store, { flame, chart, plots });
  startDrawings(page, store, views, drawn);
}

// What is drawn over time is unpacked apart from the flamegraph, whose engine has its own columns.
async function startDrawings(page, store, views, drawn) {
  if (!byId("drawings")) return;
  const { timeline, field } = JSON.parse(await inflatedText("drawings"));
  if (timeline) drawn.push(new TimelinePanel(page, store, timeline, views));
  if (field) drawn.push(new FieldPanel(field, store, views));
  if (field?.blocks) drawn.push(new BlocksPanel(field));
}

// A card's button shows its samples alone, in the event that has some; pressed again, all.
function startOpportunities(page, store) {
  const buttons = [...document.querySelectorAll("[data-opportunity]")];
  for (const button of buttons) {
    const opportunity = Number(button.dataset.opportunity);
    const { event } = page.opportunities[opportunity];
    button.addEventListener("click", () => {
      if (store.state.opportunity === opportunity) store.clear(["opportunity"]);
      else store.set({ opportunity, event, zoom: [], view: null, upper: [] });
    });
  }
  store.follow(["opportunity"], ({ opportunity }) => {
    for (const button of buttons) {
      const chosen = Number(button.dataset.opportunity) === opportunity;
      button.setAttribute("aria-pressed", String(chosen));
      button.closest(".gain").classList.toggle("chosen", chosen);
    }
  });
}

// What a coloured segment means, on hover: the same words stand in the list below the bar.
function startHints(page) {
  const tip = byId("hint");
  document.addEventListener("pointermove", (event) => {
    const segment = event.target.closest?.("[data-cause]");
    tip.hidden = !segment;
    if (!segment) return;
    const cause = page.causes[Number(segment.dataset.cause)];
    const remedy = cause.remedy ? [element("p", "remedy", cause.remedy)] : [];
    showTip(tip, event, segment.dataset.title, element("p", "", cause.meaning), ...remedy);
  });
}
