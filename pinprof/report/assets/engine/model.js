// The recording's stacks and samples, and which samples a reader has asked for. Runs in a worker; touches no document.

import { summed, unpackColumns } from "../core/columns.js";
import { Across } from "./across.js";
import { sideWeights } from "./change.js";

/** What a sample can be filtered by, beside its event, range and time. */
export const FACETS = ["causes", "dsos", "modes", "threads"];

const UNKNOWN = -3;
const DEEPEST = 2 ** 15 + 1;

export class Model {
  /**
   * `facts` has the numbers of causes, dsos, threads and frames, and whether samples are timed. In a comparison the
   * threads are runs, and `sides`, `scales` and `tests` say what belongs together (engine/change.js).
   */
  constructor(buffer, layout, facts) {
    const columns = unpackColumns(buffer, layout);
    Object.assign(this, facts);
    this.frameName = columns.frameName;
    this.frameDso = columns.frameDso;
    this.frameKind = columns.frameKind;
    this.weight = columns.weight;
    this.time = summed(columns.time, Float64Array);
    this.range = { path: columns.rangePath, first: columns.rangeFirst, last: columns.rangeLast };
    this.across = new Across(columns, columns.weight);
    this.#buildTree(columns);
    this.#bundleSamples(columns);
  }

  // Nodes come in preorder, with steps of depth. Here they stand level by level under one root, node 0, so that callees
  // lie side by side, those of a node from `callees[node]` to `callees[node + 1]`: passes over the tree run through memory.
  #buildTree({ depth: steps, frame: frames, decided, leaf, opportunity, opportunityNode }) {
    const length = steps.length + 1;
    const depth = summed(steps, Int16Array);
    const free = new Int32Array(DEEPEST);
    free[0] = 1;
    for (let node = 0; node < depth.length; node += 1) free[depth[node] + 1] += 1;
    for (let level = 1; level < DEEPEST; level += 1) free[level] += free[level - 1];
    const [parent, frame, callees, place] = [length, length, length + 1, length - 1].map(
      (size) => new Int32Array(size),
    );
    parent[0] = -1;
    frame[0] = -1;
    callees[0] = 1;
    this.decided = new decided.constructor(length);
    // In preorder the caller is the last node seen one level up.
    const last = new Int32Array(DEEPEST);
    for (let node = 0; node < depth.length; node += 1) {
      const level = depth[node];
      const at = free[level]++;
      place[node] = at;
      parent[at] = last[level];
      last[level + 1] = at;
      frame[at] = frames[node];
      callees[last[level] + 1] += 1;
      this.decided[at] = decided[node];
    }
    for (let node = 0; node < length; node += 1) callees[node + 1] += callees[node];
    this.tree = { parent, frame, callees, length };
    this.leaf = summed(leaf, Int32Array).map((node) => place[node]);
    this.opportunity = { of: opportunity, node: summed(opportunityNode, Int32Array).map((node) => place[node]) };
  }

  // Samples that agree in everything but time and weight are asked about together: a bundle. Nearly every stack has one.
  #bundleSamples({ stack, event, cause, thread, likely, weight, count: counts }) {
    const samples = stack.length;
    const first = new Int32Array(this.leaf.length).fill(-1);
    const next = new Int32Array(samples);
    const [sums, counted] = [0, 1].map(() => new Float64Array(samples));
    const example = new Int32Array(samples);
    const bundleOf = new Int32Array(samples);
    let count = 0;
    for (let sample = 0; sample < samples; sample += 1) {
      const at = stack[sample];
      let before = -1;
      let bundle = first[at];
      while (bundle >= 0) {
        const other = example[bundle];
        if (
          cause[other] === cause[sample] &&
          thread[other] === thread[sample] &&
          event[other] === event[sample] &&
          likely[other] === likely[sample]
        )
          break;
        before = bundle;
        bundle = next[bundle];
      }
      if (bundle < 0) {
        bundle = count;
        count += 1;
        example[bundle] = sample;
        next[bundle] = first[at];
        first[at] = bundle;
      } else if (before >= 0) {
        // To the front: what follows in time is likely of the same thread.
        next[before] = next[bundle];
        next[bundle] = first[at];
        first[at] = bundle;
      }
      bundleOf[sample] = bundle;
      sums[bundle] += weight[sample];
      if (counts) counted[bundle] += counts[sample];
    }
    const pick = (column) => {
      const picked = new column.constructor(count);
      for (let bundle = 0; bundle < count; bundle += 1) picked[bundle] = column[example[bundle]];
      return picked;
    };
    const [node, dsos, modes] = [Int32Array, Int32Array, Uint8Array].map((Type) => new Type(count));
    for (let bundle = 0; bundle < count; bundle += 1) {
      node[bundle] = this.leaf[stack[example[bundle]]];
      const frame = this.tree.frame[node[bundle]];
      dsos[bundle] = this.frameDso[frame];
      modes[bundle] = this.frameKind[frame];
    }
    this.bundleOf = bundleOf;
    this.bundles = {
      length: count,
      node,
      dsos,
      modes,
      weight: sums.slice(0, count),
      count: counted.slice(0, count),
      decider: new Int32Array(count).fill(UNKNOWN),
      event: pick(event),
      causes: pick(cause),
      threads: pick(thread),
      likely: pick(likely),
    };
  }

  /**
   * Bundles of one event that pass every filter of `query` with their weights, and per facet its values' weights among
   * what passes all other filters: what a legend shows beside the values not chosen.
   */
  select(query) {
    const { bundles } = this;
    const { event, causes, dsos, modes, threads } = bundles;
    const sizes = [this.causes, this.dsos, 3, this.threads];
    const [causeIn, dsoIn, modeIn, threadIn] = FACETS.map((facet, index) => chosen(query[facet], sizes[index]));
    const weights = sizes.map((size) => new Float64Array(size));
    const [byCause, byDso, byMode, byThread] = weights;
    const { inside, amounts, all: everything } = this.#weights(query);
    const member = this.nodesOf(query.opportunity);
    const rows = new Int32Array(bundles.length);
    let count = 0;
    let total = 0;
    let whole = 0;
    for (let bundle = 0; bundle < bundles.length; bundle += 1) {
      if (event[bundle] !== query.event) continue;
      whole += everything[bundle];
      const amount = amounts[bundle];
      // What only the other side of a comparison has counts there.
      if ((amount === 0 && !this.sides) || (member && !member[bundles.node[bundle]])) continue;
      const [cause, dso, mode, thread] = [causes[bundle], dsos[bundle], modes[bundle], threads[bundle]];
      const passed = causeIn[cause] + dsoIn[dso] + modeIn[mode] + threadIn[thread];
      if (passed < 3) continue;
      const all = passed === 4;
      if (all || causeIn[cause] === 0) byCause[cause] += amount;
      if (all || dsoIn[dso] === 0) byDso[dso] += amount;
      if (all || modeIn[mode] === 0) byMode[mode] += amount;
      if (all || threadIn[thread] === 0) byThread[thread] += amount;
      if (!all) continue;
      rows[count] = bundle;
      count += 1;
      total += amount;
    }
    const facets = Object.fromEntries(FACETS.map((facet, index) => [facet, weights[index]]));
    return { rows: rows.subarray(0, count), amounts, inside, total, whole, facets };
  }

  // Per bundle what it is wide, and what it would be without range and span.
  #weights({ span, range, event, side }) {
    if (!this.sides) return { ...this.within(span, range), all: this.bundles.weight };
    const amounts = sideWeights(this, event, side);
    return { inside: null, amounts, all: amounts };
  }

  /** Per node 1 where samples of an opportunity end; null for none chosen. */
  nodesOf(opportunity) {
    if (!(opportunity >= 0)) return null;
    const member = new Uint8Array(this.tree.length);
    const { of, node } = this.opportunity;
    for (let at = 0; at < of.length; at += 1) if (of[at] === opportunity) member[node[at]] = 1;
    return member;
  }

  /** The samples of a selection, in the order of time. */
  samples({ rows, inside }) {
    const { bundleOf } = this;
    const wanted = new Uint8Array(this.bundles.length);
    for (const bundle of rows) wanted[bundle] = 1;
    const samples = new Int32Array(bundleOf.length);
    let count = 0;
    for (let sample = 0; sample < bundleOf.length; sample += 1) {
      if (wanted[bundleOf[sample]] === 0 || (inside && inside[sample] === 0)) continue;
      samples[count] = sample;
      count += 1;
    }
    return samples.subarray(0, count);
  }

  /** A span of time, and a range: per sample what of it is in both, null for no such limit; and the bundles' weights. */
  within(span, range = -1) {
    const { bundles, bundleOf, weight } = this;
    if (range < 0 && !span) return { inside: null, amounts: bundles.weight };
    const inside = new Float64Array(weight.length);
    if (range < 0) inside.set(weight);
    for (let run = 0; range >= 0 && run < this.range.path.length; run += 1) {
      const { path, first, last } = this.range;
      if (path[run] === range) inside.set(weight.subarray(first[run], last[run]), first[run]);
    }
    for (let sample = 0; span && sample < inside.length; sample += 1) {
      if (this.time[sample] < span[0] || this.time[sample] >= span[1]) inside[sample] = 0;
    }
    this.across.overlaps(span, range, (sample, part) => {
      inside[sample] = part;
    });
    const amounts = new Float64Array(bundles.length);
    for (let sample = 0; sample < inside.length; sample += 1) amounts[bundleOf[sample]] += inside[sample];
    return { inside, amounts };
  }

  /** The function that decided a bundle's cause: -1 none, -2 a heuristic did. */
  decider(bundle) {
    const { decider, likely, node } = this.bundles;
    if (decider[bundle] === UNKNOWN) decider[bundle] = likely[bundle] ? -2 : this.#decided(node[bundle]);
    return decider[bundle];
  }

  #decided(leaf) {
    let node = leaf;
    let callers = this.decided[leaf];
    if (callers < 0) return -1;
    for (; callers > 0; callers -= 1) node = this.tree.parent[node];
    return this.tree.frame[node];
  }
}

function chosen(list, size) {
  const allowed = new Uint8Array(size).fill(list?.length ? 0 : 1);
  for (const value of list ?? []) allowed[value] = 1;
  return allowed;
}
