// Buttons that copy a text of the page.

import { byId, element } from "./dom.js";

const SAID_MS = 2000;

export function startCopying() {
  const said = document.body.appendChild(element("p", "sr"));
  said.setAttribute("role", "status");
  for (const button of document.querySelectorAll("button[data-copies]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const copied = await copyTextOf(byId(button.dataset.copies));
      button.textContent = copied ? "Copied" : "Selected";
      said.textContent = copied ? "Copied" : "Selected: copy it with Ctrl+C";
      setTimeout(() => {
        button.textContent = "Copy";
        said.textContent = "";
      }, SAID_MS);
    });
  }
}

async function copyTextOf(source) {
  try {
    await navigator.clipboard.writeText(source.textContent);
    return true;
  } catch {
    // Not every browser lets a local file write to the clipboard: leave the text selected for the keyboard.
    getSelection().selectAllChildren(source);
    return false;
  }
}
