// What can be pressed on a page to choose what is shown: events, causes, lines.

import { byId } from "../core/dom.js";

/** One tab for each event. */
export function startEvents(store) {
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

/** The 100 % bar and the list below it filter by cause; what is not chosen steps back. */
export function startCauses(store) {
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

/** A line of Python is searched for in the flamegraph; pressed again, no longer. */
export function startLines(store) {
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
