// Buttons that copy a text of the page.

import { byId } from "./dom.js";

export function startCopying() {
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
}
