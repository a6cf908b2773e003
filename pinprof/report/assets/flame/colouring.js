// Colours of nodes: by cause, by module, or by user and kernel; and the legend's entries for each.

import { themed } from "../core/theme.js";
import { CHANGE_SCHEMES, changeFill, markOfSide } from "./change.js";

// The less of a function's weight its leading cause makes up, the greyer the function: [from percent, part of colour].
const BLENDS = [
  [98, 1],
  [85, 0.75],
  [65, 0.5],
  [45, 0.25],
  [0, 0],
];
const MODULE_COLOURS = 9;
export const MODES = ["user code", "kernel", "kernel modules"];

/** Colour scheme → the facet it filters by and its label. */
export const SCHEMES = {
  cause: { facet: "causes", label: "cause" },
  module: { facet: "dsos", label: "module" },
  mode: { facet: "modes", label: "user or kernel" },
};

/** Colour scheme → its label, those of a comparison first on its page. */
export function schemesOf(page) {
  return page.compared ? { ...CHANGE_SCHEMES, ...SCHEMES } : SCHEMES;
}

/** What a painter needs, in the current theme; `ranks` gives the modules with colours of their own, heaviest first. */
export function colourStyle(scheme, page, frames, ranks) {
  const mixed = themed("--mixed");
  const shared = {
    ink: themed("--on-cause"),
    fadedInk: themed("--soft"),
    match: themed("--match"),
    matchInk: themed("--on-match"),
    ground: themed("--card"),
    outline: themed("--ink"),
    font: `12px ${getComputedStyle(document.body).fontFamily}`,
    nameOf: (frame) => frames.nameOf(frame),
    markOf: page.compared ? markOfSide : () => 0,
  };
  if (CHANGE_SCHEMES[scheme]) return { ...shared, fill: changeFill(scheme) };
  if (scheme === "cause") {
    const causes = page.causes.map((cause) => {
      const pure = themed(`--cause-${cause.slug}`);
      return BLENDS.map(([, part]) => blend(mixed, pure, part));
    });
    const blendOf = Array.from({ length: 101 }, (_, purity) => BLENDS.findIndex(([from]) => purity >= from));
    return { ...shared, fill: (table, node) => causes[table.leafOf(node)]?.[blendOf[table.purityOf(node)]] ?? mixed };
  }
  if (scheme === "module") {
    const colours = new Map(ranks.slice(0, MODULE_COLOURS).map((dso, rank) => [dso, themed(`--module-${rank}`)]));
    return { ...shared, fill: (table, node) => colours.get(frames.dsoOf(table.frameOf(node))) ?? mixed };
  }
  const modes = MODES.map((_, mode) => themed(`--mode-${mode}`));
  return { ...shared, fill: (table, node) => modes[frames.kindOf(table.frameOf(node))] ?? mixed };
}

/** The legend: [value, label, explanation, custom property], heaviest first, those without weight left out. */
export function legendOf(scheme, page, facets, selected, ranks) {
  const { facet } = SCHEMES[scheme];
  const weights = facets[facet];
  const present = [...weights.keys()].filter((value) => weights[value] > 0 || selected.includes(value));
  present.sort((one, other) => weights[other] - weights[one] || one - other);
  return present.map((value) => {
    if (scheme === "cause")
      return [value, page.causes[value].key, page.causes[value].meaning, `--cause-${page.causes[value].slug}`];
    if (scheme === "mode")
      return [value, MODES[value], `Samples whose innermost function is ${MODES[value]}`, `--mode-${value}`];
    const rank = ranks.indexOf(value);
    const colour = rank >= 0 && rank < MODULE_COLOURS ? `--module-${rank}` : "--mixed";
    return [value, page.dsos[value] || "no module", "Samples whose innermost function is in this module", colour];
  });
}

/** Modules by weight of the samples that end in them, heaviest first. */
export function ranked(weights) {
  return [...weights.keys()].filter((dso) => weights[dso] > 0).sort((one, other) => weights[other] - weights[one]);
}

// Two colours `#rrggbb` mixed.
function blend(from, to, part) {
  const channel = (colour, index) => parseInt(colour.slice(1 + 2 * index, 3 + 2 * index), 16);
  const mixed = [0, 1, 2].map((index) => Math.round(channel(from, index) * (1 - part) + channel(to, index) * part));
  return `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}
