// A timeline's columns at every level of detail: each level has twice the step of the one before, and the same sums. What
// is drawn then follows the pixels, from an hour to a millisecond.

import { firstAt, summed } from "../core/columns.js";

/** Levels of a density, finest first; each `{step, bin, cause, weight}` in order of `bin`. */
export class DensityLevels {
  constructor({ bin, cause, weight }, step) {
    this.levels = [{ step, bin: summed(bin, Float64Array), cause, weight }];
  }

  /** The finest level whose steps last as long as `least`, or are the longest that say anything. */
  at(least) {
    let level = this.levels[0];
    for (let number = 0; level.step < least && level.bin.length > 1; number += 1) {
      this.levels[number + 1] ??= coarserDensity(level);
      level = this.levels[number + 1];
    }
    return level;
  }
}

function coarserDensity({ step, bin, cause, weight }) {
  const made = { step: 2 * step, bin: [], cause: [], weight: [] };
  const place = new Map();
  let current = -1;
  for (let at = 0; at < bin.length; at += 1) {
    const wide = Math.floor(bin[at] / 2);
    if (wide !== current) place.clear();
    current = wide;
    const known = place.get(cause[at]);
    if (known === undefined) {
      place.set(cause[at], made.bin.length);
      made.bin.push(wide);
      made.cause.push(cause[at]);
      made.weight.push(weight[at]);
    } else made.weight[known] += weight[at];
  }
  return made;
}

const FINEST_PART = 2 ** 16;

/**
 * Levels of intervals, columns as `unpackSpans` gives them: the finest as they are, coarser ones with those of one style
 * and depth that begin in the same step joined, but for longer ones.
 */
export class SpanLevels {
  constructor(spans, whole) {
    this.finest = withReach(spans);
    // Where steps are shorter than these, few intervals are in view.
    this.step = 2 ** Math.max(Math.ceil(Math.log2(whole / FINEST_PART)), 0);
    this.levels = [];
  }

  /** The coarsest level whose steps last no longer than `most`. */
  at(most) {
    let level = this.finest;
    for (let number = 0, step = this.step; step <= most; number += 1, step *= 2) {
      this.levels[number] ??= withReach(coarserSpans(level, step));
      level = this.levels[number];
    }
    return level;
  }
}

function coarserSpans(spans, step) {
  const names = ["start", "length", "style", "name", "depth", "size", "count", "busy"];
  const made = Object.fromEntries(names.map((name) => [name, []]));
  const open = new Map();
  for (let at = 0; at < spans.start.length; at += 1) {
    const cell = Math.floor(spans.start[at] / step);
    const key = spans.depth[at] * 4096 + spans.style[at];
    const known = open.get(key);
    if (spans.length[at] < step && known?.cell === cell) {
      const { place } = known;
      const end = Math.max(made.start[place] + made.length[place], spans.start[at] + spans.length[at]);
      made.length[place] = end - made.start[place];
      for (const name of ["size", "count", "busy"]) made[name][place] += spans[name][at];
      made.name[place] = -1;
      continue;
    }
    if (spans.length[at] < step) open.set(key, { cell, place: made.start.length });
    for (const name of names) made[name].push(spans[name][at]);
  }
  return made;
}

// Per interval the latest end so far: what reaches into a view is found by it.
function withReach(spans) {
  let latest = 0;
  const reach = spans.start.map((start, at) => (latest = Math.max(latest, start + spans.length[at])));
  return { ...spans, reach };
}

/** [first, end) of the rows of ordered intervals that lie in a view, and perhaps some that do not. */
export function rowsIn({ start, reach }, [from, to]) {
  return [firstAt(reach, from), firstAt(start, to + 1)];
}
