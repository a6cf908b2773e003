// Calls, copies and migrations for what passes the filters: the tables' figures, and the plot of transfers.

import { element, swatchEntry } from "../core/dom.js";
import { formatBytes, formatCount, formatNs, formatRate, formatShare } from "../core/format.js";
import { barOf } from "./bars.js";

const GIB = 2 ** 30;
// The same as report/activity_rows.py: smaller parts stand together, the first few are named.
const SMALLEST_PART = 0.005;
const SMALLEST_NAMED = 0.01;
const NAMED_PARTS = 3;

export class ActivityView {
  constructor(page, overrides, plots) {
    Object.assign(this, { page, overrides, plots });
  }

  show(state, instances) {
    this.whole = lengthOf(state, instances) ?? this.page.instances.run;
    for (const head of document.querySelectorAll("[data-share-head]")) {
      this.overrides.set(head, state.range >= 0 ? "Of range" : state.span ? "Of span" : "Of run");
    }
    this.#rows("call", instances, instances.rows("call", state), (sum, cells) =>
      this.#call(state, instances, sum, cells),
    );
    this.#rows("copy", instances, instances.rows("copy", state), (sum, cells, group) => this.#copy(sum, cells, group));
    this.#rows("move", instances, instances.rows("move", state, { threads: false }), (sum, cells) =>
      this.#move(instances, sum, cells),
    );
    this.plots.filter("transfers", instances, state);
    if (state.range >= 0 && !state.span) this.#tiles(this.page.ranges[state.range].tiles);
  }

  // Managed memory in one range; in a span these figures are not known.
  #tiles(tiles) {
    document.querySelectorAll("#uvm .tile").forEach((place, at) => {
      if (!tiles[at]) return;
      const [value, label, warn] = tiles[at];
      this.overrides.set(place.querySelector("b"), value);
      this.overrides.set(place.querySelector("span"), label);
      this.overrides.attribute(place, "class", warn ? "tile warn" : "tile");
    });
  }

  // Every line of a kind's tables; those without anything left say so and step back.
  #rows(kind, instances, rows, fill) {
    const sums = instances.sums(kind, rows);
    for (const line of document.querySelectorAll(`tr[data-${kind}]`)) {
      const group = Number(line.dataset[kind]);
      const sum = sums.get(group);
      const cells = Object.fromEntries(
        [...line.querySelectorAll("[data-cell]")].map((cell) => [cell.dataset.cell, cell]),
      );
      this.overrides.attribute(line, "class", sum ? null : "empty");
      if (sum) fill(sum, cells, group);
      else for (const cell of Object.values(cells)) this.overrides.set(cell, cell === cells.count ? "0" : "");
    }
  }

  #put(cells, texts) {
    for (const [name, text] of Object.entries(texts))
      this.overrides.set(cells[name], text ?? element("span", "faint", "–"));
  }

  #call(state, instances, sum, cells) {
    this.#put(cells, {
      count: formatCount(sum.count),
      bytes: sum.size ? formatBytes(sum.size) : null,
      total: formatNs(sum.busy),
      share: formatShare(sum.busy, this.whole),
      median: formatNs(instances.spread("call", sum.rows, "busy")[1]),
      first: formatNs(instances.call.busy[sum.rows[0]] / instances.call.count[sum.rows[0]]),
      rate: sum.size ? formatNs((sum.busy / sum.size) * GIB) : null,
    });
    if (cells.split)
      this.overrides.set(cells.split, ...this.#split(instances.timesOf(sum.rows), sum.busy, state.causes));
  }

  #split(times, busy, chosen) {
    const sampled = times.reduce((all, [, ns]) => all + ns, 0);
    if (!sampled) return [element("span", "faint", "no samples of its threads")];
    const whole = Math.max(busy, sampled);
    const { causes } = this.page;
    const off = (cause) => chosen.length > 0 && !chosen.includes(cause);
    const large = times.filter(([, ns]) => ns >= SMALLEST_PART * whole);
    const parts = large.map(([cause, ns]) => ({
      share: ns / whole,
      className: `c-${causes[cause].slug}`,
      cause,
      off: off(cause),
      ns,
      label: causes[cause].key,
      title: `${causes[cause].key} · ${formatNs(ns)} · ${formatShare(ns, whole)}`,
    }));
    const others = sampled - large.reduce((all, [, ns]) => all + ns, 0);
    const rest = (label, ns) => parts.push({ share: ns / whole, className: "rest", off: chosen.length > 0, ns, label });
    if (others) rest("others", others);
    if (busy > sampled)
      rest(this.page.events.some((event) => event.spans) ? "unexplained" : "not on a CPU", busy - sampled);
    const named = parts.filter((part) => part.share >= SMALLEST_NAMED && !part.off).slice(0, NAMED_PARTS);
    const line = element("div", "top-causes");
    for (const { cause, className, label, ns } of named) {
      const figure = element("b", "", formatNs(ns));
      line.append(swatchEntry("", cause === undefined ? "" : className, `${label} `, figure), " ");
    }
    return [barOf(parts, 14, "Where the time went"), line];
  }

  #copy(sum, cells, group) {
    const limit = this.page.links[group];
    this.#put(cells, {
      count: formatCount(sum.count),
      bytes: formatBytes(sum.size),
      rate: formatRate(sum.size, sum.busy),
      busy: formatNs(sum.busy),
      host: formatNs(sum.extra),
    });
    if (!limit || !sum.busy) return;
    const share = sum.size / sum.busy / limit;
    const meter = element("div", "meter");
    const className = cells.link.closest("tr").querySelector(".swatch").classList[1];
    meter.append(
      barOf([{ share: Math.min(share, 1), className }], 16, "Share of the practical rate"),
      element("span", "num", formatShare(share, 1)),
    );
    this.overrides.set(cells.link, meter);
  }

  #move(instances, sum, cells) {
    const [, median, most] = instances.spread("move", sum.rows, "size");
    this.#put(cells, {
      count: formatCount(sum.count),
      bytes: formatBytes(sum.size),
      median: formatBytes(Math.round(median)),
      most: formatBytes(Math.round(most)),
      rate: formatRate(sum.size, sum.busy),
      busy: formatNs(sum.busy),
      inside: formatShare(sum.extra, sum.count),
    });
  }
}

// How long what is shown lasted: the chosen range's calls, as far as they lie in the span; null for everything.
function lengthOf(state, instances) {
  const span = instances.spanOf(state);
  if (state.range < 0) return span && span[1] - span[0];
  const [from, to] = span ?? [-Infinity, Infinity];
  return instances
    .intervalsOf(state.range)
    .reduce((sum, [start, end]) => sum + Math.max(Math.min(end, to) - Math.max(start, from), 0), 0);
}
