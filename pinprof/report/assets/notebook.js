// Once in a notebook: puts pages together from what all cells share and what each cell has, and shows them in frames.

import { inflatedText } from "./core/dom.js";

const SHORTEST = 120;
const own = document.currentScript.dataset;
const parts = own.parts.split(" ").map((id) => inflatedText(id));

// [id of a cell's output, which shared parts it needs, the most pixels that its frame may be tall].
async function show([id, shared, tallest]) {
  const place = document.getElementById(id);
  if (!place || shared !== own.shared) return;
  const pieces = JSON.parse(await inflatedText(`${id}-page`));
  const common = await Promise.all(parts);
  const frame = document.createElement("iframe");
  frame.sandbox = "allow-scripts";
  frame.title = "pinprof report";
  frame.style = `width: 100%; height: ${SHORTEST}px; border: 1px solid #8884; border-radius: 6px`;
  frame.srcdoc = pieces.map((piece) => (typeof piece === "number" ? common[piece] : piece)).join("");
  window.addEventListener("message", ({ source, data }) => {
    const height = Number(data?.pinprofHeight);
    if (source === frame.contentWindow && height > 0) {
      frame.style.height = `${Math.min(Math.max(height, SHORTEST) + 2, tallest)}px`;
    }
  });
  place.replaceChildren(frame);
}

// Cells may be shown before this script runs: they wait in a list.
const waiting = globalThis.pinprofCells ?? [];
globalThis.pinprofCells = { push: show };
for (const cell of waiting) show(cell);
