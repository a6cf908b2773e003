// What stands at every node of a forest: its weight with everything below, its leading cause, and what decided that.

import { scratch } from "./memory.js";

const NONE = -1;
const MIXED = -2;
const PER_CLIMB = 32;

/**
 * Columns by node of a tree, whose callers precede their callees: total, the leading cause `leaf` and its percentage
 * `purity`, and `decider`. `rows` say what ends where. Most nodes have one cause only; just the others are
 * gone through cause by cause.
 */
export function nodeTotals(model, tree, rows) {
  const { parent, length } = tree;
  const total = scratch("total", Float64Array, length, 0);
  const leaf = scratch("leaf", Int16Array, length, NONE);
  const purity = scratch("purity", Uint8Array, length, 100);
  for (let row = 0; row < rows.length; row += 1) {
    const node = rows.node[row];
    const cause = rows.cause[row];
    total[node] += rows.weight[row];
    if (leaf[node] !== cause) leaf[node] = leaf[node] === NONE ? cause : MIXED;
  }
  for (let node = length - 1; node > 0; node -= 1) {
    const cause = leaf[node];
    if (cause === NONE) continue;
    const above = parent[node];
    total[above] += total[node];
    if (leaf[above] !== cause) leaf[above] = leaf[above] === NONE ? cause : MIXED;
  }
  const decider = deciders(model, parent, total, leaf, rows);
  const columns = { total, leaf, purity, decider };
  if (leaf[0] === MIXED) separate(model, tree, columns, rows);
  return columns;
}

// The nodes with several causes are a tree of their own, near the root; fed by rows and by nodes with a single cause.
function separate(model, { parent, callees }, { total, leaf, purity, decider }, rows) {
  const place = scratch("place", Int32Array, leaf.length, -1);
  const nodes = [];
  for (let node = 0; node < leaf.length; node += 1) {
    if (leaf[node] === MIXED) place[node] = nodes.push(node) - 1;
  }
  const above = Int32Array.from(nodes, (node) => (node ? place[parent[node]] : -1));
  const mixed = {
    above,
    amount: new Float64Array(nodes.length),
    most: new Float64Array(nodes.length),
    by: new Int32Array(nodes.length),
  };
  const lead = new Float64Array(nodes.length);
  for (const [cause, feed] of feeds(model, { nodes, callees, place }, { total, leaf, decider }, rows)) {
    const take = (at) => {
      if (mixed.amount[at] > lead[at]) {
        lead[at] = mixed.amount[at];
        leaf[nodes[at]] = cause;
        decider[nodes[at]] = mixed.by[at];
      }
      mixed.amount[at] = mixed.most[at] = 0;
    };
    if (feed.size * PER_CLIMB < nodes.length) climb(mixed, feed).forEach(take);
    else {
      carry(mixed, feed);
      for (let at = 0; at < nodes.length; at += 1) take(at);
    }
  }
  for (let at = 0; at < nodes.length; at += 1) purity[nodes[at]] = Math.floor((100 * lead[at]) / total[nodes[at]]);
}

// Cause → where in the mixed tree it comes in, with what weight, and what decided it there.
function feeds(model, { nodes, callees, place }, { total, leaf, decider }, rows) {
  const lists = new Map();
  const listOf = (cause) => lists.get(cause) ?? lists.set(cause, { size: 0, filled: 0 }).get(cause);
  const each = (visit) => {
    for (let row = 0; row < rows.length; row += 1) {
      const at = place[rows.node[row]];
      if (at >= 0) visit(listOf(rows.cause[row]), at, rows.weight[row], -1, row);
    }
    for (let at = 0; at < nodes.length; at += 1) {
      for (let node = callees[nodes[at]]; node < callees[nodes[at] + 1]; node += 1) {
        if (leaf[node] >= 0) visit(listOf(leaf[node]), at, total[node], node, -1);
      }
    }
  };
  each((list) => {
    list.size += 1;
  });
  for (const list of lists.values()) {
    Object.assign(list, {
      at: new Int32Array(list.size),
      weight: new Float64Array(list.size),
      by: new Int32Array(list.size),
    });
  }
  each((list, at, weight, node, row) => {
    list.at[list.filled] = at;
    list.weight[list.filled] = weight;
    list.by[list.filled] = node >= 0 ? decider[node] : model.decider(rows.bundle[row]);
    list.filled += 1;
  });
  return [...lists].sort(([one], [other]) => one - other);
}

function add({ amount, most, by }, at, weight, heaviest, decider) {
  amount[at] += weight;
  if (heaviest <= most[at]) return;
  most[at] = heaviest;
  by[at] = decider;
}

// Few come in: each climbs to the root. Returns the nodes that have an amount now.
function climb(tree, { size, at, weight, by }) {
  const touched = [];
  for (let index = 0; index < size; index += 1) {
    for (let node = at[index]; node >= 0; node = tree.above[node]) {
      if (tree.amount[node] === 0) touched.push(node);
      add(tree, node, weight[index], weight[index], by[index]);
    }
  }
  return touched;
}

// Many come in: one pass up the tree.
function carry(tree, { size, at, weight, by }) {
  for (let index = 0; index < size; index += 1) add(tree, at[index], weight[index], weight[index], by[index]);
  for (let node = tree.above.length - 1; node > 0; node -= 1) {
    if (tree.amount[node] > 0) add(tree, tree.above[node], tree.amount[node], tree.most[node], tree.by[node]);
  }
}

// Per node with a single cause the function that decided it, as for the heaviest of what meets there.
function deciders(model, parent, total, leaf, rows) {
  const decider = scratch("decider", Int32Array, leaf.length, -1);
  const from = scratch("from", Float64Array, leaf.length, 0);
  for (let row = 0; row < rows.length; row += 1) {
    const node = rows.node[row];
    if (leaf[node] === MIXED || rows.weight[row] <= from[node]) continue;
    decider[node] = model.decider(rows.bundle[row]);
    from[node] = rows.weight[row];
  }
  for (let node = leaf.length - 1; node > 0; node -= 1) {
    const above = parent[node];
    if (leaf[above] < 0 || total[node] <= from[above]) continue;
    decider[above] = decider[node];
    from[above] = total[node];
  }
  return decider;
}
