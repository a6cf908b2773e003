// From chosen samples to what is drawn: the merged tree, the leaf-up tree, callers and callees of one function, or the
// samples in the order of time. Results are plain columns, so that they can travel out of the worker.

import { changes, hiddenWeight } from "./change.js";
import { Forest, Placer } from "./forest.js";
import { inverted } from "./inverted.js";
import { tableOf } from "./ordering.js";

/**
 * Tables by name for a query (`core/store.js`): main; callers and main for a sandwich. In a comparison, `hidden` is the
 * weight of stacks that only the side has which is not laid out.
 */
export function derive(model, query) {
  const selection = model.select(query);
  const tables =
    query.order === "time" && model.timed && query.sandwich < 0 && !query.inverted
      ? { main: inTime(model, query, selection) }
      : merged(model, query, selection);
  const { facets, whole, total } = selection;
  const { pairs, hidden, ...shown } = tables;
  return { tables: shown, pairs, hidden, facets, whole, total };
}

function merged(model, query, selection) {
  const { forest, rows } = placed(model, query, selection);
  const hidden = model.sides ? hiddenWeight(model, query.event, forest, rows) : 0;
  if (query.sandwich >= 0) {
    const top = topmost(forest, query.sandwich);
    const callers = rootedForest(query);
    const callees = rootedForest(query);
    const outward = callerChains(model, forest, rows, callers, top);
    const inward = calleeChains(model, forest, rows, callees, top);
    const { ends: upper, ...outer } = drawn(
      model,
      query,
      tableOf(model, callers.leveled(outward), outward, true),
      outward,
    );
    const { ends: lower, ...inner } = drawn(
      model,
      query,
      tableOf(model, callees.leveled(inward), inward, true),
      inward,
    );
    // Both keep the rows in their order: where each stack ends among the callers, and where among the callees.
    return {
      callers: outer,
      main: inner,
      hidden,
      pairs: { upper, lower, weight: inward.weight.slice(0, inward.length) },
    };
  }
  const asked = Boolean(model.sides);
  const table = query.inverted ? inverted(model, forest, rows) : tableOf(model, forest, rows, asked);
  const { ends, ...main } = drawn(model, query, table, rows);
  return { main, hidden };
}

// A table of a comparison says of each node what it was before and after.
function drawn(model, { event }, table, rows) {
  return model.sides ? { ...table, ...changes(model, event, table, table.ends, rows) } : table;
}

/** Weights as rows: what ends at a node, by cause; a pair of both may have several rows. */
class Weights {
  constructor(room) {
    this.length = 0;
    this.node = new Int32Array(room);
    this.cause = new Int16Array(room);
    this.weight = new Float64Array(room);
    this.bundle = new Int32Array(room);
  }

  add(node, cause, weight, bundle) {
    const row = this.length;
    this.node[row] = node;
    this.cause[row] = cause;
    this.weight[row] = weight;
    this.bundle[row] = bundle;
    this.length = row + 1;
  }
}

// The chosen bundles' stacks as a forest with the weights' rows; unchanged stacks are the recording's own tree.
function placed(model, query, { rows, amounts }) {
  const { bundles } = model;
  const weights = new Weights(rows.length);
  const forest = new Forest();
  const placer = new Placer(model, forest, query.edits);
  if (placer.plain && !query.split) {
    for (const bundle of rows) weights.add(bundles.node[bundle], bundles.causes[bundle], amounts[bundle], bundle);
    return { forest: model.tree, rows: weights };
  }
  for (const [thread, members] of byThread(query, rows, (bundle) => bundles.threads[bundle])) {
    if (thread >= 0) placer.startThread(thread);
    for (const bundle of members) {
      const node = placer.place(bundles.node[bundle]);
      if (node >= 0) weights.add(node, bundles.causes[bundle], amounts[bundle], bundle);
    }
  }
  return { forest: forest.leveled(weights), rows: weights };
}

// [thread, its members] in the order of threads; all under -1 where the query does not split.
function byThread({ split }, members, threadOf) {
  if (!split) return [[-1, members]];
  const lists = new Map();
  for (const member of members) {
    const thread = threadOf(member);
    if (!lists.has(thread)) lists.set(thread, []);
    lists.get(thread).push(member);
  }
  return [...lists].sort(([one], [other]) => one - other);
}

// Chains from the inside out, from where `top` says; rows without a start are left out.
function callerChains(model, forest, rows, target, top) {
  const threads = model.frames + model.dsos;
  const { frame, parent } = forest;
  const weights = new Weights(rows.length);
  for (let row = 0; row < rows.length; row += 1) {
    const from = top[rows.node[row]];
    if (from < 0) continue;
    let outermost = from;
    while (parent[outermost] > 0) outermost = parent[outermost];
    let at = frame[outermost] >= threads ? target.child(0, frame[outermost]) : 0;
    for (
      let node = target.frame[0] === frame[from] ? parent[from] : from;
      node > 0 && frame[node] < threads;
      node = parent[node]
    )
      at = target.child(at, frame[node]);
    weights.add(at, rows.cause[row], rows.weight[row], rows.bundle[row]);
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
function rootedForest({ sandwich, split }) {
  const forest = new Forest();
  if (!split) forest.frame[0] = sandwich;
  return forest;
}

// What lies inside `top`, by thread where the forest is; rows without a start are left out.
function calleeChains(model, forest, rows, target, top) {
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
    if (node >= 0) weights.add(node, rows.cause[row], rows.weight[row], rows.bundle[row]);
  }
  return weights;
}

/** Samples side by side as they came; `shared` says how many levels each has in common with the one before. */
function inTime(model, query, selection) {
  const forest = new Forest();
  const placer = new Placer(model, forest, query.edits);
  const { bundleOf, bundles } = model;
  const samples = model.samples(selection);
  const weight = selection.inside ?? model.weight;
  const size = samples.length;
  const columns = {
    node: new Int32Array(size),
    start: new Float64Array(size + 1),
    cause: new Int16Array(size),
    decider: new Int32Array(size),
    shared: new Int16Array(size),
  };
  let count = 0;
  for (const [thread, members] of byThread(query, samples, (sample) => bundles.threads[bundleOf[sample]])) {
    if (thread >= 0) placer.startThread(thread);
    for (const sample of members) {
      const bundle = bundleOf[sample];
      const node = placer.place(bundles.node[bundle]);
      if (node < 0) continue;
      columns.node[count] = node;
      columns.cause[count] = bundles.causes[bundle];
      columns.decider[count] = model.decider(bundle);
      columns.start[count + 1] = columns.start[count] + weight[sample];
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
  const cut = Object.fromEntries(
    Object.entries(columns).map(([name, column]) => [name, column.slice(0, name === "start" ? count + 1 : count)]),
  );
  return {
    kind: "time",
    ...cut,
    depth,
    parent: forest.parent.slice(0, forest.length),
    frame: forest.frame.slice(0, forest.length),
  };
}
