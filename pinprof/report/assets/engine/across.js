// Waits that reach across edges of ranges (report/flame.py): each is in a range, or a span of time, for as long as they
// overlap. Runs in a worker; touches no document.

import { firstAt, summed } from "../core/columns.js";

const EVERY_RANGE = -2; // the process of a kernel thread
const EVERYBODY = -1; // the owner of a range that counts all processes but idle processors

export class Across {
  constructor(columns, weight) {
    this.sample = summed(columns.waitSample, Int32Array);
    this.start = summed(columns.waitStart, Float64Array);
    this.end = this.start.map((start, wait) => start + weight[this.sample[wait]]);
    this.processes = [...new Set(columns.waitProcess)];
    const number = new Map(this.processes.map((process, at) => [process, at]));
    this.of = Int32Array.from(columns.waitProcess, (process) => number.get(process));
    this.path = columns.scopePath;
    this.from = summed(columns.scopeStart, Float64Array);
    this.length = columns.scopeLength;
    this.owner = columns.scopeOwner;
    this.member = new Uint8Array(weight.length);
    for (const sample of this.sample) this.member[sample] = 1;
  }

  /** `visit(sample, ns)` for each wait with what of it lies in a span of µs and a range; null and -1: no such limit. */
  overlaps(span, range, visit) {
    const times = range < 0 ? [] : this.processes.map((process) => this.#times(range, process));
    const [first, last] = span ? [1000 * span[0], 1000 * span[1]] : [-Infinity, Infinity];
    for (let wait = 0; wait < this.sample.length; wait += 1) {
      const from = Math.max(this.start[wait], first);
      const to = Math.max(Math.min(this.end[wait], last), from);
      const set = times[this.of[wait]];
      visit(this.sample[wait], range < 0 ? to - from : before(set, to) - before(set, from));
    }
  }

  // The time of a range that counts for a process: [start, end) apart and ascending, with the time before each.
  #times(range, process) {
    const pairs = [];
    for (let at = firstAt(this.path, range); at < this.path.length && this.path[at] === range; at += 1) {
      const owner = this.owner[at];
      const counts = process === EVERY_RANGE || owner === process || (owner === EVERYBODY && process !== 0);
      if (counts) pairs.push([this.from[at], this.from[at] + this.length[at]]);
    }
    pairs.sort(([one], [other]) => one - other);
    const set = { start: [], end: [], sum: [] };
    let total = 0;
    for (const [start, end] of pairs) {
      const last = set.end.length - 1;
      const fresh = Math.max(start, last < 0 ? start : set.end[last]);
      if (end <= fresh) continue;
      set.start.push(fresh);
      set.end.push(end);
      set.sum.push(total);
      total += end - fresh;
    }
    return set;
  }
}

// How much of a set lies before an instant.
function before({ start, end, sum }, instant) {
  let low = 0;
  let high = start.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (start[middle] <= instant) low = middle + 1;
    else high = middle;
  }
  return low ? sum[low - 1] + Math.min(instant, end[low - 1]) - start[low - 1] : 0;
}
