// The 100 % bar and the list of causes, for what passes the filters. Chosen causes stand out; the others step back.

import { fitLabels } from "../core/fitting.js";
import { formatShare, formatWeight } from "../core/format.js";

const LABELLED = 0.05;
const SHORT = 0.1;
const MEDIUM = 0.3;

export class CausesView {
  constructor(page, overrides) {
    Object.assign(this, { page, overrides });
  }

  /** Weights by cause, and of the whole recording, as `survey` gives them. */
  show(state, { causes, whole }) {
    const block = document.querySelector(`.causes[data-of-event="${state.event}"]`);
    if (!block?.querySelector(".bar")) return;
    const { unit, name } = this.page.events[state.event];
    const total = causes.reduce((sum, weight) => sum + weight, 0);
    this.#sentences(block, state, causes, total, whole, unit, name);
    if (total === whole) return;
    this.#bar(block, causes, total, unit);
    for (const level of block.querySelectorAll("details.level")) {
      let sum = 0;
      for (const leaf of level.querySelectorAll("li[data-leaf]")) {
        const weight = causes[leaf.dataset.leaf];
        sum += weight;
        this.#figures(leaf.querySelector(".row"), weight, total, unit);
        this.overrides.attribute(leaf, "hidden", weight ? null : "");
        // What the CPU did inside a cause is known for the whole recording only.
        const work = leaf.querySelector(".work");
        if (work) this.overrides.attribute(work, "hidden", "");
      }
      this.#figures(level.querySelector("summary"), sum, total, unit);
      this.overrides.attribute(level, "hidden", sum ? null : "");
    }
  }

  #sentences(block, { causes: chosen }, causes, total, whole, unit, name) {
    const sentences = [];
    if (total < whole)
      sentences.push(`This part: ${formatWeight(total, unit)}, ${formatShare(total, whole)} of ${name}.`);
    if (chosen.length) {
      const weight = chosen.reduce((sum, cause) => sum + causes[cause], 0);
      const keys = chosen.map((cause) => this.page.causes[cause].key).join(", ");
      sentences.push(
        `Selected, ${keys}: ${formatWeight(weight, unit)}, ${formatShare(weight, total)} of ${total < whole ? "this part" : name}.`,
      );
    }
    const place = block.querySelector(".part");
    this.overrides.set(place, sentences.join(" "));
    this.overrides.attribute(place, "hidden", sentences.length ? null : "");
  }

  #figures(row, weight, total, unit) {
    this.overrides.set(row.querySelector(".weight"), formatWeight(weight, unit));
    this.overrides.set(row.querySelector(".share"), formatShare(weight, total));
  }

  #bar(block, causes, total, unit) {
    const { overrides } = this;
    const percent = (weight) => `${total ? ((100 * weight) / total).toFixed(4) : 0}%`;
    let at = 0;
    let level = { start: 0, weight: 0 };
    for (const part of block.querySelector(".bar").children) {
      if (part.dataset.cause !== undefined) {
        const cause = Number(part.dataset.cause);
        const weight = causes[cause];
        overrides.attribute(part, "x", percent(at));
        overrides.attribute(part, "width", percent(weight));
        overrides.attribute(
          part,
          "data-title",
          `${this.page.causes[cause].key} · ${formatShare(weight, total)} · ${formatWeight(weight, unit)}`,
        );
        at += weight;
        level.weight += weight;
        continue;
      }
      // A level's label follows its causes.
      const share = total ? level.weight / total : 0;
      overrides.attribute(part, "x", percent(level.start));
      overrides.attribute(part, "width", percent(level.weight));
      overrides.attribute(
        part,
        "class",
        `label${share <= LABELLED ? " none" : share < SHORT ? " short" : share < MEDIUM ? " medium" : ""}`,
      );
      overrides.set(part.querySelector(".strong"), formatShare(level.weight, total));
      level = { start: at, weight: 0 };
    }
  }

  /** Labels that fit what the bars now show. */
  fit() {
    for (const bar of document.querySelectorAll(".causes .bar:has(.label)")) fitLabels(bar);
  }
}
