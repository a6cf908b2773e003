// Ranges × causes for what passes the filters: the table's figures and bars, and the full table of every cause.

import { element, swatchEntry } from "../core/dom.js";
import { formatCount, formatNs, formatShare, formatWeight } from "../core/format.js";
import { spreadOfMany } from "../filters/instances.js";
import { barOf, spreadOf } from "./bars.js";

const NAMED = 3;
const NAMED_FROM = 0.02;

export class RangesView {
  constructor(page, overrides) {
    Object.assign(this, { page, overrides });
  }

  /** `rows` are the ranges as `rangeRows` gives them; without `sampled` their weights stay as they came. */
  show(state, rows, { sampled }) {
    const { unit } = this.page.events[state.event] ?? {};
    for (const line of document.querySelectorAll(`[data-of-event="${state.event}"] table.ranges tr[data-range]`)) {
      const row = rows[line.dataset.range];
      if (row.inSpan) this.#calls(line, row);
      if (sampled) this.#causes(line, row, state, unit);
    }
  }

  #calls(line, { count, wall, spread }) {
    const set = (name, ...content) => this.overrides.set(line.querySelector(`td.${name}`), ...content);
    const faint = (text) => element("span", "faint", text);
    set("count", formatCount(count));
    set("wall", count ? formatNs(wall / count) : faint("–"));
    if (count > 1) set("spread", ...spreadOf(spread, formatNs));
    else set("spread", faint(count ? "one call" : "no call"));
  }

  #causes(line, { leaves, total, count }, { causes: chosen }, unit) {
    const set = (name, ...content) => this.overrides.set(line.querySelector(`td.${name}`), ...content);
    const isChosen = ([cause]) => !chosen.length || chosen.includes(cause);
    const shown = leaves.filter(([, weight]) => weight);
    const counted = shown.filter(isChosen);
    const sum = counted.reduce((all, [, weight]) => all + weight, 0);
    set("sampled", count && sum ? formatWeight(sum / count, unit) : "–");
    const parts = shown.map(([cause, weight]) => {
      const { key, slug } = this.page.causes[cause];
      const title = `${key} · ${formatShare(weight, total)} · ${formatWeight(weight, unit)}`;
      return { share: weight / total, className: `c-${slug}`, cause, off: !isChosen([cause]), title };
    });
    set("bars", ...(total ? [barOf(parts, 16, "Causes")] : []));
    const named = counted.slice(0, NAMED).filter(([, weight]) => chosen.length || weight >= NAMED_FROM * total);
    const entries = named.map(([cause, weight]) => {
      const { key, slug } = this.page.causes[cause];
      return swatchEntry("", `c-${slug}`, `${key} `, element("b", "", formatShare(weight, total)));
    });
    set("top-causes", ...entries);
  }

  /** The full table, in the measure of the chart: shares, sums or means. */
  matrix(state, rows, measure) {
    const { unit } = this.page.events[state.event] ?? {};
    for (const table of document.querySelectorAll(`[data-of-event="${state.event}"] table.matrix`)) {
      for (const place of table.querySelectorAll("[data-leaf]")) {
        const cause = Number(place.dataset.leaf);
        this.overrides.attribute(place, "hidden", state.causes.length && !state.causes.includes(cause) ? "" : null);
        if (place.tagName !== "TD") continue;
        const row = rows[place.closest("tr").dataset.range];
        const weight = row.leaves.find(([one]) => one === cause)?.[1] ?? 0;
        this.overrides.set(place, weight ? amountOf(measure, weight, row, unit) : "");
      }
    }
  }
}

function amountOf(measure, weight, row, unit) {
  if (measure === "share") return formatShare(weight, row.total);
  return formatWeight(measure === "mean" ? weight / row.count : weight, unit);
}

/**
 * Per range what the page shows of it: calls, wall time, its spread, and the weights of its causes, heaviest first.
 * `survey` is the answer to that question, null for the whole recording; `instances` has the calls, null for none.
 */
export function rangeRows(page, state, survey, instances) {
  const size = page.causes.length;
  const span = instances?.spanOf(state);
  const calls = span && callsIn(instances, span);
  return page.ranges.map((range, index) => {
    const filtered = survey && page.timed ? survey.ranges.subarray(index * size) : null;
    const whole = range.leaves[state.event] ?? [];
    const leaves = whole.map(([cause, weight]) => [cause, filtered ? filtered[cause] : weight]);
    leaves.sort((one, other) => other[1] - one[1]);
    const total = leaves.reduce((sum, [, weight]) => sum + weight, 0);
    const { count, wall, spread } = calls ? (calls.get(index) ?? { count: 0, wall: 0 }) : range;
    return { inSpan: Boolean(span), leaves, total, count, wall, spread };
  });
}

// Per range its calls that last within a span, cut to it: what is outside is not shown and not counted.
function callsIn(instances, [from, to]) {
  const { group, start, length, count, busy } = instances.range;
  const parts = new Map();
  for (let row = 0; row < group.length; row += 1) {
    const inside = Math.min(start[row] + length[row], to) - Math.max(start[row], from);
    if (inside <= 0) continue;
    // A row of several calls counts with the part of them that is inside.
    const share = inside / Math.max(length[row], 1);
    const many = count[row] > 1 ? Math.max(Math.round(count[row] * share), 1) : 1;
    const wall = count[row] > 1 ? (busy[row] * share) / many : inside;
    if (!parts.has(group[row])) parts.set(group[row], []);
    parts.get(group[row]).push([wall, many]);
  }
  const summary = (pairs) => ({
    count: pairs.reduce((sum, [, many]) => sum + many, 0),
    wall: pairs.reduce((sum, [wall, many]) => sum + wall * many, 0),
    spread: spreadOfMany(pairs),
  });
  return new Map([...parts].map(([range, pairs]) => [range, summary(pairs)]));
}
