// Brings the finished page to life: which event is shown, what is filtered, the theme, hints and copying. Nothing here
// computes results. In the worker made of this script (engine/engine.js) there is no document: there it answers questions.

import { startCopying } from "./core/copying.js";
import { byId, element, inflatedText, readJson } from "./core/dom.js";
import { Store } from "./core/store.js";
import { startTheme } from "./core/theme.js";
import { showTip } from "./core/tooltip.js";
import { serve } from "./engine/engine.js";
import { FilterStrip } from "./filters/chips.js";
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
  const { dsos, frames } = page.flame.facts;
  const functions = Object.fromEntries(["sandwich", "focus", "hide", "drop", "fold"].map((key) => [key, frames]));
  const sizes = {
    ...functions,
    event: page.events.length,
    range: rangesChosen(page) ? page.ranges.length : 0,
    dsos,
    modules: dsos,
    threads: page.threads.length,
    opportunity: page.opportunities?.length ?? 0,
    modes: 3,
  };
  const store = new Store({ causes: page.causes.map((cause) => cause.key) }, sizes);
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

// Where many pages share a script it is a function, and its text is the function's.
function scriptText() {
  return globalThis.pinprofPage ? `(${globalThis.pinprofPage})();` : byId("page-script").textContent;
}

// Samples without times cannot be filtered by range.
function rangesChosen(page) {
  return page.timed || !page.flame.facts.threads;
}

// What is drawn over time is unpacked apart from the flamegraph, whose engine has its own columns.
async function startDrawings(page, store, views, drawn) {
  if (!byId("drawings")) return;
  const { timeline, field } = JSON.parse(await inflatedText("drawings"));
  if (timeline) drawn.push(new TimelinePanel(page, store, timeline, views));
  if (field) drawn.push(new FieldPanel(field, store, views));
  if (field?.blocks) drawn.push(new BlocksPanel(field));
}

function startEvents(store) {
  const tabs = [...document.querySelectorAll("#events [role=tab]")];
  const choose = (chosen) => store.set({ event: chosen, zoom: [], view: null, upper: [] });
  const show = ({ event: chosen }) => {
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", String(Number(tab.dataset.event) === chosen));
      tab.tabIndex = Number(tab.dataset.event) === chosen ? 0 : -1;
    }
    for (const block of document.querySelectorAll("[data-of-event]")) {
      block.hidden = Number(block.dataset.ofEvent) !== chosen;
    }
  };
  tabs.forEach((tab, index) => {
    tab.addEventListener("click", () => choose(Number(tab.dataset.event)));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(index + step + tabs.length) % tabs.length];
      next.focus();
      choose(Number(next.dataset.event));
    });
  });
  store.follow(["event"], show);
}

// The 100 % bar and the list below it filter by cause; what is not chosen steps back.
function startCauses(store) {
  // What a filter replaces is marked as it is made.
  const marked = [...document.querySelectorAll("[data-cause], [data-filter]")];
  const causeOf = (node) => Number(node.dataset.cause ?? node.dataset.filter);
  document.addEventListener("click", (event) => {
    const node = event.target.closest?.("[data-cause], [data-filter]");
    if (node) store.toggle("causes", causeOf(node));
  });
  const show = ({ causes }) => {
    for (const node of marked) {
      const chosen = causes.includes(causeOf(node));
      node.classList.toggle("off", causes.length > 0 && !chosen);
      if (node.dataset.filter) node.setAttribute("aria-pressed", String(chosen));
    }
  };
  store.follow(["causes"], show);
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

// A line of Python is searched for in the flamegraph; pressed again, no longer.
function startLines(store) {
  const lines = [...document.querySelectorAll("button[data-find]")];
  const show = ({ search }) => {
    for (const line of lines) line.setAttribute("aria-pressed", String(line.dataset.find === search));
  };
  for (const line of lines) {
    line.addEventListener("click", () => {
      const search = store.state.search === line.dataset.find ? "" : line.dataset.find;
      store.set({ search });
      if (search) byId("flame")?.scrollIntoView();
    });
  }
  store.follow(["search"], show);
}

// Links to sections scroll without replacing the state in the address.
function startSections() {
  for (const link of document.querySelectorAll(".sections a")) {
    link.addEventListener("click", (event) => {
      if (!location.hash.includes("=")) return;
      event.preventDefault();
      document.querySelector(link.getAttribute("href")).scrollIntoView();
    });
  }
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

// On paper the light theme, whichever is chosen.
function startPrinting(redraw) {
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
