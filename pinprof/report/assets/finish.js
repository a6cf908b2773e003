// A grown forest as the columns of a table: totals, leading causes, and the order of display, level by level, each
// level from left to right with the heavier sibling first.

const PER_CLIMB = 32;

// Room that every answer needs and none keeps: handing it on spares the collector most of its work.
const ROOM = new Map();

function room(name, Type, size, value) {
  let array = ROOM.get(name);
  if (!array || array.length < size) {
    array = new Type(size);
    ROOM.set(name, array);
  }
  return array.subarray(0, size).fill(value);
}

/** With `asks`, `ends` says per row of weights where its node stands in the table. */
export function finish(model, forest, weights, asks = false) {
  const size = forest.length;
  const parent = forest.parent;
  const self = room("self", Float64Array, size, 0);
  for (let row = 0; row < weights.length; row += 1) self[weights.node[row]] += weights.weight[row];
  const total = room("total", Float64Array, size, 0);
  total.set(self);
  carriedUp(parent, total);
  const { leaf, most } = leadingCauses(parent, size, weights);
  const decider = deciders(model, parent, total, leaf, weights);
  return ordered({ parent, frame: forest.frame, self, total, leaf, most, decider }, size, asks ? weights : null);
}

function carriedUp(parent, own) {
  for (let node = own.length - 1; node > 0; node -= 1) own[parent[node]] += own[node];
}

// One pass up the tree per cause; a cause with few rows climbs from those only.
function leadingCauses(parent, size, weights) {
  const leaf = room("leaf", Int16Array, size, -1);
  const most = room("most", Float64Array, size, 0);
  const scratch = room("scratch", Float64Array, size, 0);
  const rowsOf = byCause(weights);
  for (const [cause, rows] of rowsOf) {
    if (rows.length * PER_CLIMB < size) {
      const touched = [];
      for (const row of rows) {
        for (let node = weights.node[row]; node >= 0; node = parent[node]) {
          if (scratch[node] === 0) touched.push(node);
          scratch[node] += weights.weight[row];
        }
      }
      for (const node of touched) {
        if (scratch[node] > most[node]) {
          most[node] = scratch[node];
          leaf[node] = cause;
        }
        scratch[node] = 0;
      }
      continue;
    }
    scratch.fill(0);
    for (const row of rows) scratch[weights.node[row]] += weights.weight[row];
    for (let node = size - 1; node >= 0; node -= 1) {
      const weight = scratch[node];
      if (weight === 0) continue;
      if (node > 0) scratch[parent[node]] += weight;
      if (weight > most[node]) {
        most[node] = weight;
        leaf[node] = cause;
      }
    }
    scratch.fill(0);
  }
  return { leaf, most };
}

function byCause({ cause, length }) {
  const counts = new Map();
  for (let row = 0; row < length; row += 1) counts.set(cause[row], (counts.get(cause[row]) ?? 0) + 1);
  const lists = new Map([...counts].map(([value, count]) => [value, new Int32Array(count)]));
  for (let row = length - 1; row >= 0; row -= 1) {
    const left = counts.get(cause[row]) - 1;
    lists.get(cause[row])[left] = row;
    counts.set(cause[row], left);
  }
  return lists;
}

// Per node the function that decided its leading cause, taken from the heaviest sample below that has this cause.
function deciders(model, parent, total, leaf, weights) {
  const size = leaf.length;
  const decider = room("decider", Int32Array, size, -1);
  const from = room("from", Float64Array, size, 0);
  for (let row = 0; row < weights.length; row += 1) {
    const node = weights.node[row];
    if (weights.cause[row] !== leaf[node]) continue;
    decider[node] = model.decider(weights.sample[row]);
    from[node] = weights.weight[row];
  }
  for (let node = size - 1; node > 0; node -= 1) {
    const above = parent[node];
    if (leaf[node] === leaf[above] && total[node] > from[above]) {
      decider[above] = decider[node];
      from[above] = total[node];
    }
  }
  return decider;
}

function ordered(columns, size, weights) {
  const { parent, total, most } = columns;
  const first = room("first", Int32Array, size, -1);
  const next = room("next", Int32Array, size, -1);
  for (let node = size - 1; node > 0; node -= 1) {
    next[node] = first[parent[node]];
    first[parent[node]] = node;
  }
  const order = room("order", Int32Array, size, 0);
  const place = room("place", Int32Array, size, 0);
  const rows = [0, 1];
  let filled = 1;
  for (let low = 0, high = 1; low < high; low = high, high = filled) {
    for (let at = low; at < high; at += 1) {
      const eldest = filled;
      for (let node = first[order[at]]; node >= 0; node = next[node]) {
        if (total[node] > 0) order[filled++] = node;
      }
      if (filled - eldest > 1) arrange(order, eldest, filled, total);
    }
    if (filled > high) rows.push(filled);
  }
  const pick = (column) => {
    const picked = new column.constructor(filled);
    for (let at = 0; at < filled; at += 1) picked[at] = column[order[at]];
    return picked;
  };
  for (let at = 0; at < filled; at += 1) place[order[at]] = at;
  const moved = pick(parent);
  for (let at = 1; at < filled; at += 1) moved[at] = place[moved[at]];
  const purity = new Uint8Array(filled);
  for (let at = 0; at < filled; at += 1) purity[at] = Math.floor((100 * most[order[at]]) / total[order[at]] || 0);
  return {
    ...(weights && { ends: weights.node.slice(0, weights.length).map((node) => place[node]) }),
    kind: "tree", rows, parent: moved, frame: pick(columns.frame), self: pick(columns.self), total: pick(total),
    leaf: pick(columns.leaf), decider: pick(columns.decider), purity,
  };
}

// Heavier nodes first, equal ones as they come. Families are small: insertion sort, and a real one for the few large.
function arrange(order, low, high, total) {
  if (high - low > 24) {
    order.subarray(low, high).sort((one, other) => total[other] - total[one] || one - other);
    return;
  }
  for (let at = low + 1; at < high; at += 1) {
    const node = order[at];
    const weight = total[node];
    let to = at;
    while (to > low && total[order[to - 1]] < weight) {
      order[to] = order[to - 1];
      to -= 1;
    }
    order[to] = node;
  }
}
