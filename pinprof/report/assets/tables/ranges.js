// Ranges × causes for what passes the filters: the table's figures and bars, and the full table of every cause.

import { element } from "../core/dom.js";
import { formatCount, formatNs, formatShare, formatWeight } from "../core/format.js";
import { barOf, spreadOf } from "../filters/overrides.js";

const NAMED = 3;
const NAMED_FROM = 0.02;

export class RangesView {
  constructor(page, patches) {
    Object.assign(this, { page, patches });
  }

  /** `rows` are the ranges as `rangeRows` gives them. */
  show(state, rows) {
    const { unit } = this.page.events[state.event] ?? {};
    for (const line of document.querySelectorAll(`[data-of-event="${state.event}"] table.ranges tr[data-range]`)) {
      this.#line(line, rows[line.dataset.range], state, unit);
    }
  }

  #line(line, row, state, unit) {
    const { patches } = this;
    const cell = (name) => line.querySelector(`td.${name}`);
    const none = () => element("span", "faint", "–");
    if (row.fresh) {
      patches.set(cell("count"), formatCount(row.count));
      patches.set(cell("wall"), row.count ? formatNs(row.wall / row.count) : none());
      patches.set(
        cell("spread"),
        ...(row.count > 1
          ? spreadOf(row.spread, formatNs)
          : [element("span", "faint", row.count ? "one call" : "no call")]),
      );
    }
    if (!row.weights) return;
    const shown = row.leaves.filter(([, weight]) => weight);
    const chosen = state.causes.length ? shown.filter(([cause]) => state.causes.includes(cause)) : shown;
    const sum = chosen.reduce((all, [, weight]) => all + weight, 0);
    patches.set(cell("sampled"), row.count && sum ? formatWeight(sum / row.count, unit) : "–");
    patches.set(
      cell("bars"),
      ...(row.total
        ? [
            barOf(
              shown.map(([cause, weight]) => ({
                share: weight / row.total,
                className: `c-${this.page.causes[cause].slug}`,
                cause,
                off: !chosen.some(([one]) => one === cause),
                title: `${this.page.causes[cause].key} · ${formatShare(weight, row.total)} · ${formatWeight(weight, unit)}`,
              })),
              16,
              "Causes",
            ),
          ]
        : []),
    );
    const named = chosen
      .slice(0, NAMED)
      .filter(([, weight]) => weight >= NAMED_FROM * row.total || state.causes.length);
    patches.set(
      line.querySelector("td.top-causes"),
      ...named.map(([cause, weight]) => {
        const entry = element("span");
        entry.append(
          element("span", `swatch c-${this.page.causes[cause].slug}`),
          `${this.page.causes[cause].key} `,
          element("b", "", formatShare(weight, row.total)),
        );
        return entry;
      }),
    );
  }

  /** The full table, in the measure of the chart: shares, sums or means. */
  matrix(state, rows, measure) {
    const { unit } = this.page.events[state.event] ?? {};
    for (const table of document.querySelectorAll(`[data-of-event="${state.event}"] table.matrix`)) {
      for (const place of table.querySelectorAll("[data-leaf]")) {
        const cause = Number(place.dataset.leaf);
        this.patches.attribute(place, "hidden", state.causes.length && !state.causes.includes(cause) ? "" : null);
        if (place.tagName !== "TD") continue;
        const row = rows[place.closest("tr").dataset.range];
        const weight = row.leaves.find(([one]) => one === cause)?.[1] ?? 0;
        this.patches.set(place, weight ? amountOf(measure, weight, row, unit) : "");
      }
    }
  }
}

function amountOf(measure, weight, row, unit) {
  if (measure === "share") return formatShare(weight, row.total);
  return formatWeight(measure === "mean" ? weight / row.count : weight, unit);
}

/**
 * Per range what the page shows of it: count, wall time, its spread, and the weights of its causes, heaviest first.
 * `found` is the answer of `survey`, or null for the whole recording; `instances` tells of the calls in a span, or null.
 */
export function rangeRows(page, state, found, instances) {
  const size = page.causes.length;
  const span = instances?.spanOf(state);
  const calls = span ? callsIn(instances, span) : null;
  return page.ranges.map((range, index) => {
    const whole = range.leaves[state.event] ?? [];
    const leaves =
      found && page.timed
        ? whole.map(([cause]) => [cause, found.ranges[index * size + cause]])
        : whole.map((pair) => [...pair]);
    leaves.sort((one, other) => other[1] - one[1]);
    const total = leaves.reduce((sum, [, weight]) => sum + weight, 0);
    const row = {
      fresh: Boolean(calls),
      weights: true,
      leaves,
      total,
      count: range.count,
      wall: range.wall,
      spread: range.spread,
    };
    return calls ? { ...row, ...(calls.get(index) ?? { count: 0, wall: 0, spread: [0, 0, 0] }) } : row;
  });
}

// Calls of ranges that last within a span, cut to it: what is outside is not shown and not counted.
function callsIn(instances, [from, to]) {
  const { group, start, length, count, busy } = instances.range;
  const found = new Map();
  for (let row = 0; row < group.length; row += 1) {
    const part = Math.min(start[row] + length[row], to) - Math.max(start[row], from);
    if (part <= 0) continue;
    if (!found.has(group[row])) found.set(group[row], []);
    // A row of several calls counts with the part of them that is inside.
    const share = part / Math.max(length[row], 1);
    const many = count[row] > 1 ? Math.max(Math.round(count[row] * share), 1) : 1;
    found.get(group[row]).push([count[row] > 1 ? (busy[row] * share) / many : part, many]);
  }
  return new Map(
    [...found].map(([range, parts]) => {
      parts.sort((one, other) => one[0] - other[0]);
      const all = parts.reduce((sum, [, many]) => sum + many, 0);
      let passed = 0;
      const [median] = parts.find(([, many]) => (passed += many) > (all - 1) / 2);
      return [
        range,
        {
          count: all,
          wall: parts.reduce((sum, [wall, many]) => sum + wall * many, 0),
          spread: [parts[0][0], median, parts.at(-1)[0]],
        },
      ];
    }),
  );
}
