// From chosen samples to what is drawn: the merged tree, the leaf-up tree, callers and callees of one function, or the
// samples in the order of time. Results are plain columns, so that they can travel out of the worker.

import { Forest, Placer } from "./forest.js";
import { finish } from "./finish.js";

/** Tables by name for a query (`state.js`): main; callers and main for a sandwich. */
export function derive(model, query) {
  const selection = model.select(query);
  const tables = query.order === "time" && model.timed && query.sandwich < 0 && !query.inverted
    ? { main: inTime(model, query, selection) }
    : merged(model, query, selection);
  const { facets, whole, total } = selection;
  const { pairs, ...shown } = tables;
  return { tables: shown, pairs, facets, whole, total };
}

function merged(model, query, selection) {
  const forest = new Forest();
  const edits = query.edits;
  if (query.sandwich >= 0) {
    const all = spread(model, query, selection, forest, edits);
    const top = topmost(forest, query.sandwich);
    const callers = rooted(query);
    const callees = rooted(query);
    const outward = turn(model, forest, all, callers, top);
    const inward = below(model, forest, all, callees, top);
    const { ends: upper, ...outer } = finish(model, callers, outward, true);
    const { ends: lower, ...inner } = finish(model, callees, inward, true);
    // Both keep the rows in their order: where each stack ends among the callers, and where among the callees.
    return { callers: outer, main: inner, pairs: { upper, lower, weight: inward.weight.slice(0, inward.length) } };
  }
  const rows = spread(model, query, selection, forest, edits);
  if (!query.inverted) return { main: finish(model, forest, rows) };
  const inverted = new Forest();
  const weights = turn(model, forest, rows, inverted, null);
  return { main: finish(model, inverted, weights) };
}

/** Weights as rows: what ends at a node, by cause, with one sample as the example; a pair may have several rows. */
class Weights {
  constructor(room) {
    this.length = 0;
    this.#reserve(Math.max(room, 16));
  }

  #reserve(room) {
    const { node, cause, weight, sample } = this;
    this.node = new Int32Array(room);
    this.cause = new Int16Array(room);
    this.weight = new Float64Array(room);
    this.sample = new Int32Array(room);
    if (!this.length) return;
    this.node.set(node);
    this.cause.set(cause);
    this.weight.set(weight);
    this.sample.set(sample);
  }

  add(node, cause, weight, sample) {
    const row = this.length;
    if (row === this.node.length) this.#reserve(row * 2);
    this.node[row] = node;
    this.cause[row] = cause;
    this.weight[row] = weight;
    this.sample[row] = sample;
    this.length = row + 1;
  }
}

// The chosen samples into a forest, by thread if asked; the weights' rows.
function spread(model, query, { rows }, forest, edits) {
  const placer = new Placer(model, forest, edits);
  const groups = query.split ? byThread(model, rows) : [[-1, rows]];
  const weights = new Weights(Math.min(rows.length, model.leaf.length));
  for (const [thread, members] of groups) {
    if (thread >= 0) placer.startThread(thread);
    const merged = grouped(model, members);
    if (placer.plain && groups.length === 1) placer.placeAll(merged.node, merged.length);
    for (let row = 0; row < merged.length; row += 1) {
      const node = placer.place(merged.node[row]);
      if (node >= 0) weights.add(node, merged.cause[row], merged.weight[row], merged.sample[row]);
    }
  }
  return weights;
}

// Samples of one stack and cause as one row, by the recording's nodes; nearly every stack has a single cause.
function grouped(model, rows) {
  const { stack, causes } = model.samples;
  const { leaf, weight } = model;
  const merged = new Weights(Math.min(rows.length, leaf.length));
  const rowOf = new Int32Array(leaf.length).fill(-1);
  const others = new Map();
  for (let index = 0; index < rows.length; index += 1) {
    const sample = rows[index];
    const at = stack[sample];
    const cause = causes[sample];
    let row = rowOf[at];
    if (row >= 0 && merged.cause[row] !== cause) row = others.get(at * 1024 + cause) ?? -2;
    if (row >= 0) {
      merged.weight[row] += weight[sample];
      continue;
    }
    if (row === -1) rowOf[at] = merged.length;
    else others.set(at * 1024 + cause, merged.length);
    merged.add(leaf[at], cause, weight[sample], sample);
  }
  return merged;
}

function byThread(model, rows) {
  const lists = new Map();
  for (const sample of rows) {
    const thread = model.samples.threads[sample];
    if (!lists.has(thread)) lists.set(thread, []);
    lists.get(thread).push(sample);
  }
  return [...lists].sort(([one], [other]) => one - other);
}

// Chains from the inside out. With `top`, they start where it says (and rows without a start are left out).
function turn(model, forest, rows, target, top) {
  const threads = model.frames + model.dsos;
  const { frame, parent } = forest;
  const weights = new Weights(rows.length);
  for (let row = 0; row < rows.length; row += 1) {
    const from = top ? top[rows.node[row]] : rows.node[row];
    if (from < 0) continue;
    let outermost = from;
    while (parent[outermost] > 0) outermost = parent[outermost];
    let at = frame[outermost] >= threads ? target.child(0, frame[outermost]) : 0;
    for (let node = target.frame[0] === frame[from] ? parent[from] : from; node > 0 && frame[node] < threads; node = parent[node]) at = target.child(at, frame[node]);
    weights.add(at, rows.cause[row], rows.weight[row], rows.sample[row]);
  }
  return weights;
}

// Per node the outermost `frame` at or above it, or -1: recursion counts once.
function topmost(forest, frame) {
  const top = new Int32Array(forest.length).fill(-1);
  for (let node = 1; node < forest.length; node += 1) {
    const above = top[forest.parent[node]];
    top[node] = above >= 0 ? above : forest.frame[node] === frame ? node : -1;
  }
  return top;
}

// One function as the root of a forest; the root of a forest split by threads holds them all and has no name.
function rooted({ sandwich, split }) {
  const forest = new Forest();
  if (!split) forest.frame[0] = sandwich;
  return forest;
}

// What lies inside `top`, by thread where the forest is; rows without a start are left out.
function below(model, forest, rows, target, top) {
  const threads = model.frames + model.dsos;
  const { frame, parent } = forest;
  const outermost = new Int32Array(forest.length);
  const to = new Int32Array(forest.length).fill(-1);
  for (let node = 1; node < forest.length; node += 1) {
    outermost[node] = parent[node] ? outermost[parent[node]] : node;
    if (top[node] < 0) continue;
    if (top[node] !== node) to[node] = target.child(to[parent[node]], frame[node]);
    else if (target.frame[0] === frame[node]) to[node] = 0;
    else {
      const thread = frame[outermost[node]];
      to[node] = target.child(thread >= threads ? target.child(0, thread) : 0, frame[node]);
    }
  }
  const weights = new Weights(rows.length);
  for (let row = 0; row < rows.length; row += 1) {
    const node = to[rows.node[row]];
    if (node >= 0) weights.add(node, rows.cause[row], rows.weight[row], rows.sample[row]);
  }
  return weights;
}

/** Samples side by side as they came; `shared` says how many levels each has in common with the one before. */
function inTime(model, query, { rows }) {
  const forest = new Forest();
  const placer = new Placer(model, forest, query.edits);
  const size = rows.length;
  const columns = {
    node: new Int32Array(size), start: new Float64Array(size + 1), cause: new Int16Array(size),
    decider: new Int32Array(size), shared: new Int16Array(size),
  };
  let count = 0;
  for (const [thread, members] of query.split ? byThread(model, rows) : [[-1, rows]]) {
    if (thread >= 0) placer.startThread(thread);
    for (const sample of members) {
      const node = placer.place(model.leaf[model.samples.stack[sample]]);
      if (node < 0) continue;
      columns.node[count] = node;
      columns.cause[count] = model.samples.causes[sample];
      columns.decider[count] = model.decider(sample);
      columns.start[count + 1] = columns.start[count] + model.weight[sample];
      count += 1;
    }
  }
  const depth = new Int16Array(forest.length);
  for (let node = 1; node < forest.length; node += 1) depth[node] = depth[forest.parent[node]] + 1;
  for (let sample = 1; sample < count; sample += 1) {
    let one = columns.node[sample - 1];
    let other = columns.node[sample];
    while (one !== other) {
      if (one > other) one = forest.parent[one];
      else other = forest.parent[other];
    }
    columns.shared[sample] = depth[one];
  }
  columns.shared[0] = -1;
  const cut = Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, column.slice(0, name === "start" ? count + 1 : count)]));
  return {
    kind: "time", ...cut, depth,
    parent: forest.parent.slice(0, forest.length), frame: forest.frame.slice(0, forest.length),
  };
}
