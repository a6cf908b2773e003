// The page of `pinprof diff`: the flamegraph of both sides, and tables whose rows filter and search it. In the worker made
// of this script (engine/engine.js) there is no document: there it answers questions.

import { startCopying } from "./core/copying.js";
import { byId, readJson } from "./core/dom.js";
import { startFitting } from "./core/fitting.js";
import { scriptText, sizesOf, startPrinting, startSections } from "./core/pages.js";
import { Store } from "./core/store.js";
import { startTheme } from "./core/theme.js";
import { serve } from "./engine/engine.js";
import { FilterStrip } from "./filters/chips.js";
import { startCauses, startEvents, startLines } from "./filters/pressed.js";
import { FlamePanel } from "./flame/panel.js";

if (typeof document === "undefined") serve();
else startComparison(readJson("page-data"));

function startComparison(page) {
  const own = { colour: "change", side: page.side };
  const choices = { colour: ["change", "difference", "cause", "module", "mode"] };
  const store = new Store({ causes: page.causes.map((cause) => cause.key) }, sizesOf(page), { own, choices });
  const flame = byId("flame") ? new FlamePanel(page, store, scriptText()) : null;
  const redraw = () => flame?.recolour();
  startFitting();
  startTheme(byId("theme"), redraw);
  startPrinting(redraw);
  startEvents(store);
  startCauses(store);
  startLines(store);
  startSections();
  startMore();
  startCopying();
  flame?.start();
  new FilterStrip(page, store);
}

// The rows of a table that are not open at first.
function startMore() {
  for (const button of document.querySelectorAll("button[data-more]")) {
    const rest = button.previousElementSibling.querySelector("tbody.rest");
    const closed = button.textContent;
    button.hidden = false;
    button.addEventListener("click", () => {
      rest.hidden = !rest.hidden;
      button.setAttribute("aria-expanded", String(!rest.hidden));
      button.textContent = rest.hidden ? closed : "Fewer";
    });
  }
}
