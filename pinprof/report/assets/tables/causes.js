// The 100 % bar and the list of causes, for what passes the filters. Chosen causes stand out; the others step back.

import { formatShare, formatWeight } from "../core/format.js";

const LABELLED = 0.05;
const SHORT = 0.1;
const MEDIUM = 0.3;

export class CausesView {
  constructor(page, patches) {
    Object.assign(this, { page, patches });
  }

  /** `found` is the answer of `survey`. */
  show(state, { causes, whole }) {
    const block = document.querySelector(`.causes[data-of-event="${state.event}"]`);
    if (!block?.querySelector(".bar")) return;
    const { unit, name } = this.page.events[state.event];
    const total = causes.reduce((sum, weight) => sum + weight, 0);
    this.#say(block, state, causes, total, whole, unit, name);
    if (total === whole) return;
    this.#bar(block, causes, total, unit);
    for (const level of block.querySelectorAll("details.level")) {
      let sum = 0;
      for (const leaf of level.querySelectorAll("li[data-leaf]")) {
        const weight = causes[leaf.dataset.leaf];
        sum += weight;
        this.#figures(leaf.querySelector(".row"), weight, total, unit);
        this.patches.attribute(leaf, "hidden", weight ? null : "");
        // What the CPU did inside a cause is known for the whole recording only.
        const work = leaf.querySelector(".work");
        if (work) this.patches.attribute(work, "hidden", "");
      }
      this.#figures(level.querySelector("summary"), sum, total, unit);
      this.patches.attribute(level, "hidden", sum ? null : "");
    }
  }

  #say(block, { causes: chosen }, causes, total, whole, unit, name) {
    const told = [];
    if (total < whole) told.push(`This part: ${formatWeight(total, unit)}, ${formatShare(total, whole)} of ${name}.`);
    if (chosen.length) {
      const weight = chosen.reduce((sum, cause) => sum + causes[cause], 0);
      const keys = chosen.map((cause) => this.page.causes[cause].key).join(", ");
      told.push(
        `Chosen, ${keys}: ${formatWeight(weight, unit)}, ${formatShare(weight, total)} of ${total < whole ? "this part" : name}.`,
      );
    }
    const place = block.querySelector(".part");
    this.patches.set(place, told.join(" "));
    this.patches.attribute(place, "hidden", told.length ? null : "");
  }

  #figures(row, weight, total, unit) {
    this.patches.set(row.querySelector(".weight"), formatWeight(weight, unit));
    this.patches.set(row.querySelector(".share"), formatShare(weight, total));
  }

  #bar(block, causes, total, unit) {
    const { patches } = this;
    const percent = (weight) => `${total ? ((100 * weight) / total).toFixed(4) : 0}%`;
    let at = 0;
    let level = { start: 0, weight: 0 };
    for (const part of block.querySelector(".bar").children) {
      if (part.dataset.cause !== undefined) {
        const cause = Number(part.dataset.cause);
        const weight = causes[cause];
        patches.attribute(part, "x", percent(at));
        patches.attribute(part, "width", percent(weight));
        patches.attribute(
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
      patches.attribute(part, "x", percent(level.start));
      patches.attribute(part, "width", percent(level.weight));
      patches.attribute(
        part,
        "class",
        `label${share <= LABELLED ? " none" : share < SHORT ? " short" : share < MEDIUM ? " medium" : ""}`,
      );
      patches.set(part.querySelector(".strong"), formatShare(level.weight, total));
      level = { start: at, weight: 0 };
    }
  }
}
