// The page of `pinprof bench`: its plots, the theme, and copying the command.

import { byId, readJson } from "./core/dom.js";
import { startTheme } from "./core/theme.js";
import { Plots } from "./plots/figures.js";

const plots = new Plots(readJson("page-data").plots);
startTheme(byId("theme"), () => plots.recolour());
for (const button of document.querySelectorAll("button[data-copies]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = byId(button.dataset.copies);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      // Not every browser lets a local file write to the clipboard: leave the text selected for the keyboard.
      getSelection().selectAllChildren(source);
    }
  });
}
