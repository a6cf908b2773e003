// Samples side by side in the order of time, with the interface of TreeTable. A node is a run: neighbours that share a
// call path to some depth. Runs are leading when they are drawn, so that a long recording costs a few columns only.
// A node's number is depth × samples + the run's first sample; node 0 holds everything.

import { marksOf } from "./treetable.js";

const BLOCK = 64;

export class TimeTable {
  constructor(columns) {
    Object.assign(this, columns);
    this.size = this.node.length;
    this.extent = this.start[this.size];
    this.levels = 1;
    for (const node of this.node) this.levels = Math.max(this.levels, this.depth[node] + 1);
    this.least = new Int16Array(Math.ceil(this.size / BLOCK)).fill(32767);
    for (let sample = 0; sample < this.size; sample += 1) {
      const block = Math.floor(sample / BLOCK);
      this.least[block] = Math.min(this.least[block], this.shared[sample]);
    }
    this.causes = new Map();
  }

  depthOf(run) {
    return this.size ? Math.floor(run / this.size) : 0;
  }
  startOf(run) {
    return this.start[this.#first(run)];
  }
  totalOf(run) {
    return this.size ? this.start[this.#stop(run)] - this.start[this.#first(run)] : 0;
  }
  leafOf(run) {
    return this.#cause(run)[0];
  }
  purityOf(run) {
    return this.#cause(run)[1];
  }
  deciderOf(run) {
    return this.#cause(run)[2];
  }

  #first(run) {
    return this.size ? run % this.size : 0;
  }

  // One past the last sample of a run.
  #stop(run) {
    const depth = this.depthOf(run);
    let sample = this.#first(run) + 1;
    while (sample < this.size && this.shared[sample] >= depth) {
      if (sample % BLOCK === 0 && this.least[sample / BLOCK] >= depth) sample += BLOCK;
      else sample += 1;
    }
    return Math.min(sample, this.size);
  }

  // The run that a sample belongs to at a depth, or -1 if its stack does not reach it.
  #runAt(depth, sample) {
    if (this.depth[this.node[sample]] < depth) return -1;
    let first = sample;
    while (first > 0 && this.shared[first] >= depth) {
      if (first % BLOCK === BLOCK - 1 && this.least[(first + 1 - BLOCK) / BLOCK] >= depth) first -= BLOCK;
      else first -= 1;
    }
    return depth * this.size + Math.max(first, 0);
  }

  // The sample at a position.
  #sampleAt(position) {
    let low = 0;
    let high = this.size;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.start[middle] <= position) low = middle;
      else high = middle;
    }
    return low;
  }

  #ancestor(run) {
    let node = this.node[this.#first(run)];
    const depth = this.depthOf(run);
    while (this.depth[node] > depth) node = this.parent[node];
    return node;
  }

  // [cause of most of a run, its percentage, the function that decided].
  #cause(run) {
    let leading = this.causes.get(run);
    if (leading) return leading;
    const stop = this.size ? this.#stop(run) : 0;
    const weights = new Map();
    let total = 0;
    for (let sample = this.#first(run); sample < stop; sample += 1) {
      const weight = this.start[sample + 1] - this.start[sample];
      const entry = weights.get(this.cause[sample]) ?? [0, this.decider[sample]];
      entry[0] += weight;
      weights.set(this.cause[sample], entry);
      total += weight;
    }
    leading = [-1, 0, -1];
    let most = 0;
    for (const [cause, [weight, decider]] of weights) {
      if (weight > most) {
        most = weight;
        leading = [cause, Math.floor((100 * weight) / total), decider];
      }
    }
    if (this.causes.size > 100_000) this.causes.clear();
    this.causes.set(run, leading);
    return leading;
  }

  frameOf(run) {
    return this.frame[this.#ancestor(run)];
  }

  selfOf(run) {
    const depth = this.depthOf(run);
    let own = 0;
    for (let sample = this.#first(run); sample < this.#stop(run); sample += 1) {
      if (this.depth[this.node[sample]] === depth) own += this.start[sample + 1] - this.start[sample];
    }
    return own;
  }

  parentOf(run) {
    const depth = this.depthOf(run);
    return depth ? this.#runAt(depth - 1, this.#first(run)) : 0;
  }

  at(depth, position) {
    if (depth < 0 || depth >= this.levels || !this.size || position < 0 || position >= this.extent) return -1;
    return this.#runAt(depth, this.#sampleAt(position));
  }

  boxes(depth, from, to, smallest, visit) {
    let sample = this.#sampleAt(Math.max(from, 0));
    while (sample < this.size && this.start[sample] < to) {
      const run = this.#runAt(depth, sample);
      if (run < 0) {
        sample += 1;
        continue;
      }
      const stop = this.#stop(run);
      const start = this.startOf(run);
      visit(run, start, this.start[stop]);
      const reached = start + smallest;
      sample = this.start[stop] < reached && reached < this.extent ? Math.max(stop, this.#sampleAt(reached)) : stop;
    }
  }

  deepest(from, to) {
    let deepest = 0;
    const last = this.#sampleAt(to);
    for (let sample = this.#sampleAt(from); sample <= last && sample < this.size; sample += 1) {
      deepest = Math.max(deepest, this.depth[this.node[sample]]);
    }
    return deepest;
  }

  path(run) {
    const runs = [];
    for (let depth = 0; depth <= this.depthOf(run); depth += 1)
      runs.push(depth ? this.#runAt(depth, this.#first(run)) : 0);
    return runs;
  }

  /** A path of functions names no moment: views in time are kept as spans instead. */
  resolve() {
    return 0;
  }

  covering(from, to) {
    let innermost = 0;
    for (let depth = 1; depth < this.levels; depth += 1) {
      const run = this.at(depth, (from + to) / 2);
      if (run < 0 || this.startOf(run) > from || this.startOf(run) + this.totalOf(run) < to) break;
      innermost = run;
    }
    return innermost;
  }

  firstChild(run) {
    const below = this.size ? this.#runAt(this.depthOf(run) + 1, this.#first(run)) : -1;
    return below < 0 ? run : below;
  }

  sibling(run, step) {
    const depth = this.depthOf(run);
    const sample = step > 0 ? this.#stop(run) : this.#first(run) - 1;
    if (depth === 0 || sample < 0 || sample >= this.size) return run;
    const next = this.#runAt(depth, sample);
    return next < 0 ? run : next;
  }

  mark(matches) {
    this.marks = marksOf(this, matches);
  }

  markOf(run) {
    return this.marks ? this.marks[this.#ancestor(run)] : -1;
  }

  matchedWeight(zoom) {
    let weight = 0;
    for (let sample = this.#first(zoom), stop = this.#stop(zoom); sample < stop; sample += 1) {
      if (this.marks[this.node[sample]]) weight += this.start[sample + 1] - this.start[sample];
    }
    return weight;
  }

  nextMatch(run, step) {
    const from = this.size ? this.#first(run) : 0;
    for (let count = 1; count <= this.size; count += 1) {
      const sample = (from + count * step + this.size * 2) % this.size;
      let node = this.node[sample];
      if (!this.marks[node]) continue;
      while (this.marks[node] !== 2) node = this.parent[node];
      return this.#runAt(this.depth[node], sample);
    }
    return -1;
  }
}
