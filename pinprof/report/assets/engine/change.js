// Two sides in one model: what a node weighs before and after, and whether more than chance parts them. Weights are means
// over a side's runs, each run counted for a unit of its work. Runs in a worker; touches no document.

import { column } from "./memory.js";

/** What `sure` says of a node. */
export const UNTESTED = 0; // a side has one run
export const TOO_FEW = 1; // too few samples to speak of
export const CHANCE = 2; // runs differ as much among themselves
export const SIGNIFICANT = 3;

/** Per bundle its weight in the mean of one side's runs, 0 of the other's; of both sides together for "both". */
export function sideWeights({ bundles, sides, scales }, event, side) {
  const parts = sharesOf(sides, scales[event], side);
  return Float64Array.from(bundles.weight, (weight, bundle) => weight * parts[bundles.threads[bundle]]);
}

// Per run what one of its weight adds to the mean of its side.
function sharesOf(sides, scales, side) {
  const runs = [0, 1].map((one) => sides.filter((other) => other === one).length);
  const wanted = { before: [0], after: [1], both: [0, 1] }[side];
  return sides.map((one, run) => (wanted.includes(one) ? scales[run] / runs[one] : 0));
}

/**
 * Columns by node of a table: `before`, `after`, and `sure`. `ends` says per row of weights where in the table its way
 * ends; callers precede their callees there.
 *
 * The test is the one for two means with a common variance, of the logarithms of the runs' weights; half a sample is
 * added to each, so that nothing has a logarithm. Scatter between runs counts, and at least that of counting samples.
 * `tests[event]` holds `least`, the samples that one side must have of a node, the `critical` value of the statistic,
 * corrected for the number of nodes, null where a side has one run, and `ratio`, the part by which recording in another
 * way may change a weight.
 */
export function changes({ bundles, sides, scales, tests }, event, { parent }, ends, rows) {
  const size = parent.length;
  const runs = sides.map((side, run) => ({ side, run, scale: scales[event][run] }));
  const [before, after] = [0, 1].map(() => column(Float64Array, size).fill(0));
  const sure = column(Uint8Array, size).fill(UNTESTED);
  const test = tests[event];
  const scatter = new Scatter(size);
  const [weight, count] = [0, 1].map(() => new Float64Array(size));
  for (const { side, run, scale } of runs) {
    weight.fill(0);
    count.fill(0);
    for (let row = 0; row < rows.length; row += 1) {
      const bundle = rows.bundle[row];
      if (bundles.threads[bundle] !== run) continue;
      weight[ends[row]] += bundles.weight[bundle];
      count[ends[row]] += bundles.count[bundle];
    }
    for (let node = size - 1; node > 0; node -= 1) {
      weight[parent[node]] += weight[node];
      count[parent[node]] += count[node];
    }
    const mean = side ? after : before;
    const members = runs.filter((other) => other.side === side).length;
    for (let node = 0; node < size; node += 1) mean[node] += (weight[node] * scale) / members;
    scatter.add(side, scale, weight, count);
  }
  const columns = { before, after, sure };
  scatter.judge(test, columns);
  return columns;
}

/** The weight of stacks of which nothing is laid out, in the mean of the other side's runs. */
export function hiddenWeight({ bundles, sides, scales }, event, { parent, length }, rows) {
  const seen = new Uint8Array(length);
  for (let row = 0; row < rows.length; row += 1) if (rows.weight[row] > 0) seen[rows.node[row]] = 1;
  for (let node = length - 1; node > 0; node -= 1) if (seen[node]) seen[parent[node]] = 1;
  const parts = sharesOf(sides, scales[event], "both");
  let hidden = 0;
  for (let row = 0; row < rows.length; row += 1) {
    const bundle = rows.bundle[row];
    if (!seen[rows.node[row]]) hidden += bundles.weight[bundle] * parts[bundles.threads[bundle]];
  }
  return hidden;
}

// Means and squares of the logarithms of the runs' weights, by node and side.
class Scatter {
  constructor(size) {
    this.size = size;
    this.runs = [0, 0];
    this.sums = [0, 1].map(() => new Float64Array(size));
    this.squares = [0, 1].map(() => new Float64Array(size));
    // What counting alone makes of the variance.
    this.least = [0, 1].map(() => new Float64Array(size));
    this.samples = [0, 1].map(() => new Float64Array(size));
  }

  add(side, scale, weight, count) {
    const sample = count[0] ? weight[0] / count[0] : 1;
    this.runs[side] += 1;
    for (let node = 0; node < this.size; node += 1) {
      const amount = Math.log(scale * (weight[node] + sample / 2));
      this.sums[side][node] += amount;
      this.squares[side][node] += amount * amount;
      this.least[side][node] += 1 / (count[node] + 0.5);
      this.samples[side][node] += count[node];
    }
  }

  judge({ critical, least, ratio }, { before, after, sure }) {
    const { runs, sums, squares } = this;
    const freedom = runs[0] + runs[1] - 2;
    for (let node = 0; node < this.size; node += 1) {
      if (Math.max(this.samples[0][node], this.samples[1][node]) < least) {
        sure[node] = TOO_FEW;
        continue;
      }
      if (critical === null) continue;
      const spread = [0, 1].map((side) => Math.max(squares[side][node] - sums[side][node] ** 2 / runs[side], 0));
      const variance = (spread[0] + spread[1]) / freedom;
      const [error, counting] = [0, 1].map((floor) =>
        [0, 1].reduce((sum, side) => sum + (floor ? this.least[side][node] / runs[side] : variance) / runs[side], 0),
      );
      const apart = Math.abs(sums[1][node] / runs[1] - sums[0][node] / runs[0]);
      const change = Math.abs(after[node] - before[node]) / Math.max(after[node], before[node]);
      const large = change > ratio && apart > critical * Math.sqrt(Math.max(error, counting));
      sure[node] = large ? SIGNIFICANT : CHANCE;
    }
  }
}
