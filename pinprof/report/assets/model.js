// The recording's stacks and samples, and which samples a reader has asked for. Runs in a worker; touches no document.

import { summed, unpackColumns } from "./columns.js";

/** What a sample can be filtered by, beside its event, range and time. */
export const FACETS = ["causes", "dsos", "modes", "threads"];

export class Model {
  /** `facts` has the numbers of causes, dsos, threads and frames, and whether samples are timed. */
  constructor(buffer, layout, facts) {
    const columns = unpackColumns(buffer, layout);
    Object.assign(this, facts);
    this.frameName = columns.frameName;
    this.frameDso = columns.frameDso;
    this.frameKind = columns.frameKind;
    this.depth = summed(columns.depth, Int16Array);
    this.frame = columns.frame;
    this.decided = columns.decided;
    this.leaf = summed(columns.leaf, Int32Array);
    this.samples = { stack: columns.stack, event: columns.event, causes: columns.cause, threads: columns.thread };
    this.weight = columns.weight;
    this.likely = columns.likely;
    this.time = summed(columns.time, Float64Array);
    this.range = { path: columns.rangePath, first: columns.rangeFirst, last: columns.rangeLast };
    this.nodes = this.depth.length;
    this.#findParents();
    this.#describeLeaves();
  }

  // In preorder the caller is the last node seen one level up.
  #findParents() {
    this.parent = new Int32Array(this.nodes);
    const last = [];
    for (let node = 0; node < this.nodes; node += 1) {
      const depth = this.depth[node];
      this.parent[node] = depth ? last[depth - 1] : -1;
      last[depth] = node;
    }
  }

  // Module and mode of a sample are those of its innermost function.
  #describeLeaves() {
    const { stack } = this.samples;
    const count = stack.length;
    this.samples.dsos = new Int32Array(count);
    this.samples.modes = new Uint8Array(count);
    for (let sample = 0; sample < count; sample += 1) {
      const frame = this.frame[this.leaf[stack[sample]]];
      this.samples.dsos[sample] = this.frameDso[frame];
      this.samples.modes[sample] = this.frameKind[frame];
    }
  }

  /**
   * Samples of one event that pass every filter of `query`, and per facet its values' weights among the samples that
   * pass all other filters: what a legend shows beside the values not chosen.
   */
  select(query) {
    const { samples, weight } = this;
    const sizes = { causes: this.causes, dsos: this.dsos, modes: 3, threads: this.threads };
    const allowed = FACETS.map((facet) => chosen(query[facet], sizes[facet]));
    const values = FACETS.map((facet) => samples[facet]);
    const weights = FACETS.map((facet) => new Float64Array(sizes[facet]));
    const inside = this.#inside(query);
    const rows = new Int32Array(weight.length);
    let count = 0;
    let total = 0;
    let whole = 0;
    for (let sample = 0; sample < weight.length; sample += 1) {
      if (samples.event[sample] !== query.event) continue;
      const amount = weight[sample];
      whole += amount;
      if (inside && !inside[sample]) continue;
      let failed = -1;
      let failures = 0;
      for (let facet = 0; facet < 4; facet += 1) {
        if (allowed[facet][values[facet][sample]] === 0) {
          failed = facet;
          failures += 1;
        }
      }
      if (failures > 1) continue;
      if (failures === 1) {
        weights[failed][values[failed][sample]] += amount;
        continue;
      }
      for (let facet = 0; facet < 4; facet += 1) weights[facet][values[facet][sample]] += amount;
      rows[count] = sample;
      count += 1;
      total += amount;
    }
    const facets = Object.fromEntries(FACETS.map((facet, index) => [facet, weights[index]]));
    return { rows: rows.subarray(0, count), total, whole, facets };
  }

  // Per sample 1 inside the asked range and span of time; null for no such limit.
  #inside({ range, span }) {
    if (range < 0 && !span) return null;
    const inside = new Uint8Array(this.weight.length).fill(range < 0 ? 1 : 0);
    for (let run = 0; range >= 0 && run < this.range.path.length; run += 1) {
      if (this.range.path[run] === range) inside.fill(1, this.range.first[run], this.range.last[run]);
    }
    for (let sample = 0; span && sample < inside.length; sample += 1) {
      if (this.time[sample] < span[0] || this.time[sample] >= span[1]) inside[sample] = 0;
    }
    return inside;
  }

  /** The function that decided a sample's cause: -1 none, -2 a heuristic did. */
  decider(sample) {
    if (this.likely[sample]) return -2;
    let node = this.leaf[this.samples.stack[sample]];
    let callers = this.decided[node];
    if (callers < 0) return -1;
    for (; callers > 0; callers -= 1) node = this.parent[node];
    return this.frame[node];
  }
}

function chosen(list, size) {
  const allowed = new Uint8Array(size).fill(list?.length ? 0 : 1);
  for (const value of list ?? []) allowed[value] = 1;
  return allowed;
}
