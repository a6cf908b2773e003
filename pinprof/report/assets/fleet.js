// The page of `pinprof fleet`: the theme, and a table of captures that is searched, ordered and shown in parts.

import { startCopying } from "./core/copying.js";
import { byId, inflatedText } from "./core/dom.js";
import { startFitting } from "./core/fitting.js";
import { startPrinting, startSections } from "./core/pages.js";
import { startTheme } from "./core/theme.js";
import { MemberTable } from "./tables/members.js";

async function startMembers() {
  const table = new MemberTable(JSON.parse(await inflatedText("member-data")));
  table.start();
  for (const button of document.querySelectorAll("button[data-fact]"))
    button.addEventListener("click", () => table.showOnly(button.dataset.fact));
  byId("members").dataset.ready = "";
}

startFitting();

startTheme(byId("theme"), () => {});
startPrinting(() => {});
startSections();
startCopying();
startMembers();
