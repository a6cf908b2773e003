// How a comparison looks in the flamegraph: colours by change, marks on what one side alone has, and both weights in words.

import { byId, makeButton } from "../core/dom.js";
import { formatShare, formatWeight } from "../core/format.js";
import { themed } from "../core/theme.js";
import { SIGNIFICANT, TOO_FEW, UNTESTED } from "../engine/change.js";

// Part of the larger weight that changed → how strong the colour is.
const CHANGE_STEPS = [0.8, 0.5, 0.2, 0];
const LESS = [
  ["−80 %", "at most a fifth is left"],
  ["−50 %", "at most half is left"],
  ["−20 %", "at most four fifths are left"],
  ["< 20 % less", "more than four fifths are left"],
];
const MORE = [
  ["+400 %", "five times as much, or more"],
  ["+100 %", "twice as much, or more"],
  ["+25 %", "a quarter more, or more than that"],
  ["< 25 % more", "less than a quarter more"],
];
const SURE = [
  "not tested: a test needs two runs on each side",
  "not tested: too few samples",
  "no: runs on one side differ as much",
  "yes",
];
const SIDES = [
  ["before", "Before", "Widths show the weights before, including all that is gone"],
  ["after", "After", "Widths show the weights after, including all that is new"],
  ["both", "Both", "Widths show the sum of both weights"],
];

/** Colour schemes of a comparison, before those of one recording. */
export const CHANGE_SCHEMES = {
  change: { label: "change", sure: true },
  difference: { label: "difference, tested or not", sure: false },
};

/** Marks of the painter (flame/painter.js) on a node: -1 gone, 1 new, 0 on both sides. */
export function markOfSide({ before, after }, node) {
  if (!after[node]) return -1;
  return before[node] ? 0 : 1;
}

/** The colour of a node by its change; grey where more than chance is asked for and not shown, and for too few samples. */
export function changeFill(scheme) {
  const mixed = themed("--mixed");
  const [less, more] = ["less", "more"].map((way) =>
    CHANGE_STEPS.map((_, step) => themed(`--${way}-${CHANGE_STEPS.length - step}`)),
  );
  const least = CHANGE_SCHEMES[scheme].sure ? SIGNIFICANT : UNTESTED;
  return (table, node) => {
    const [before, after] = [table.before[node], table.after[node]];
    const grey = before === after || table.sure[node] < least || table.sure[node] === TOO_FEW;
    if (grey) return mixed;
    const part = Math.abs(after - before) / Math.max(before, after);
    return (after < before ? less : more)[CHANGE_STEPS.findIndex((from) => part >= from)];
  };
}

/** The legend: [text, explanation, custom property, mark], from less to more. */
export function changeLegend(scheme) {
  const steps = (way, words) =>
    words.map(([text, title], step) => [text, title, `--${way}-${CHANGE_STEPS.length - step}`, 0]);
  const rest = CHANGE_SCHEMES[scheme].sure ? "no significant change" : "no change, or too few samples";
  return [
    ["only before", "Only in the recordings before", "--mixed", -1],
    ...steps("less", LESS),
    [rest, "Grey: the difference may be due to chance, has too few samples, or can't be tested", "--mixed", 0],
    ...steps("more", MORE).reverse(),
    ["only after", "Only in the recordings after", "--mixed", 1],
  ];
}

/** [term, text] of a node's change. */
export function changeFacts(table, node, unit, page) {
  const [before, after] = [table.before[node], table.after[node]];
  const each = perUnit(page);
  const amount = (weight, whole) => `${formatWeight(weight, unit)}${each} · ${formatShare(weight, whole)}`;
  const sign = after > before ? "+" : "−";
  const percent = before ? ` (${sign}${formatShare(Math.abs(after - before), before)})` : " (new)";
  const frame = table.frameOf(node);
  const was = page.formerly?.[frame];
  return [
    ["before", before ? amount(before, table.before[0]) : "absent"],
    ["after", after ? amount(after, table.after[0]) : "absent"],
    ["difference", before === after ? "none" : `${sign}${formatWeight(Math.abs(after - before), unit)}${percent}`],
    ["significant", SURE[table.sure[node]]],
    ...(was ? [["name before", was]] : []),
  ];
}

function perUnit({ per }) {
  return per ? ` per ${per}` : "";
}

/** Buttons for which side the widths are of, and the sentence about what only the other one has. */
export class Sides {
  constructor(page, store) {
    const box = byId("flame-sides");
    Object.assign(this, { page, store, note: byId("flame-hidden") });
    this.buttons = SIDES.map(([side, label, title]) => {
      const button = makeButton("", label, title, () => store.set({ side }));
      button.dataset.side = side;
      return button;
    });
    box.append(...this.buttons);
    box.hidden = false;
  }

  show({ side }, { hidden }, unit) {
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.side === side));
    this.note.hidden = !hidden;
    const other = side === "before" ? "after" : "before";
    const turn = makeButton("link", `Show the widths ${other}`, "", () => this.store.set({ side: other }));
    this.note.replaceChildren(
      `Not drawn: ${formatWeight(hidden, unit)}${perUnit(this.page)} in stacks that exist only ${other}. `,
      turn,
    );
  }
}
