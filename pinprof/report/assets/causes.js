// What stands at every node of a forest: its weight with everything below, its leading cause, and what decided that.

const NONE = -1;
const MIXED = -2;
const PER_CLIMB = 32;

// Room that every answer needs and none keeps: handing it on spares the collector most of its work.
const ROOM = new Map();

export function room(name, Type, size, value) {
  let array = ROOM.get(name);
  if (!array || array.length < size) {
    array = new Type(size);
    ROOM.set(name, array);
  }
  return array.subarray(0, size).fill(value);
}

/**
 * Columns by node of `forest`, whose callers precede their callees: self, total, the leading cause `leaf` and its
 * percentage `purity`, and `decider`. `rows` say what ends where. Most nodes have one cause only; just the others are
 * gone through cause by cause.
 */
export function weighed(model, { parent, length }, rows) {
  const self = room("self", Float64Array, length, 0);
  const total = room("total", Float64Array, length, 0);
  const leaf = room("leaf", Int16Array, length, NONE);
  const purity = room("purity", Uint8Array, length, 100);
  for (let row = 0; row < rows.length; row += 1) {
    const node = rows.node[row];
    const cause = rows.cause[row];
    self[node] += rows.weight[row];
    if (leaf[node] !== cause) leaf[node] = leaf[node] === NONE ? cause : MIXED;
  }
  total.set(self);
  for (let node = length - 1; node > 0; node -= 1) {
    const cause = leaf[node];
    if (cause === NONE) continue;
    const above = parent[node];
    total[above] += total[node];
    if (leaf[above] !== cause) leaf[above] = leaf[above] === NONE ? cause : MIXED;
  }
  if (leaf[0] === MIXED) separate(parent, { total, leaf, purity }, rows);
  return { self, total, leaf, purity, decider: deciders(model, parent, total, leaf, rows) };
}

// The nodes with several causes are a tree of their own, near the root; fed by rows and by nodes with a single cause.
function separate(parent, { total, leaf, purity }, rows) {
  const place = room("place", Int32Array, leaf.length, -1);
  let count = 0;
  for (let node = 0; node < leaf.length; node += 1) {
    if (leaf[node] === MIXED) place[node] = count++;
  }
  const above = new Int32Array(count);
  for (let node = 0; node < leaf.length; node += 1) {
    if (place[node] >= 0) above[place[node]] = node ? place[parent[node]] : -1;
  }
  const lead = new Int16Array(count).fill(NONE);
  const most = new Float64Array(count);
  const amount = new Float64Array(count);
  for (const [cause, { at, weight }] of feeds(parent, place, { total, leaf }, rows)) {
    const take = (mixed) => {
      if (amount[mixed] > most[mixed]) {
        most[mixed] = amount[mixed];
        lead[mixed] = cause;
      }
      amount[mixed] = 0;
    };
    if (at.length * PER_CLIMB < count) climb(above, amount, at, weight).forEach(take);
    else {
      carry(above, amount, at, weight);
      for (let mixed = 0; mixed < count; mixed += 1) take(mixed);
    }
  }
  for (let node = 0; node < leaf.length; node += 1) {
    if (place[node] < 0) continue;
    leaf[node] = lead[place[node]];
    purity[node] = Math.floor((100 * most[place[node]]) / total[node] || 0);
  }
}

// Cause → where in the mixed tree it comes in, and with what weight.
function feeds(parent, place, { total, leaf }, rows) {
  const counts = new Map();
  const count = (cause) => counts.set(cause, (counts.get(cause) ?? 0) + 1);
  for (let row = 0; row < rows.length; row += 1) {
    if (place[rows.node[row]] >= 0) count(rows.cause[row]);
  }
  for (let node = 1; node < leaf.length; node += 1) {
    if (leaf[node] >= 0 && place[parent[node]] >= 0) count(leaf[node]);
  }
  const lists = new Map([...counts].map(([cause, size]) => (
    [cause, { at: new Int32Array(size), weight: new Float64Array(size), filled: 0 }])));
  const add = (cause, at, weight) => {
    const list = lists.get(cause);
    list.at[list.filled] = at;
    list.weight[list.filled] = weight;
    list.filled += 1;
  };
  for (let row = 0; row < rows.length; row += 1) {
    if (place[rows.node[row]] >= 0) add(rows.cause[row], place[rows.node[row]], rows.weight[row]);
  }
  for (let node = 1; node < leaf.length; node += 1) {
    if (leaf[node] >= 0 && place[parent[node]] >= 0) add(leaf[node], place[parent[node]], total[node]);
  }
  return [...lists].sort(([one], [other]) => one - other);
}

// Few come in: each climbs to the root. Returns the nodes that have an amount now.
function climb(above, amount, at, weight) {
  const touched = [];
  for (let index = 0; index < at.length; index += 1) {
    for (let node = at[index]; node >= 0; node = above[node]) {
      if (amount[node] === 0) touched.push(node);
      amount[node] += weight[index];
    }
  }
  return touched;
}

// Many come in: one pass up the tree.
function carry(above, amount, at, weight) {
  for (let index = 0; index < at.length; index += 1) amount[at[index]] += weight[index];
  for (let node = above.length - 1; node > 0; node -= 1) amount[above[node]] += amount[node];
}

// Per node the function that decided its leading cause, taken from the heaviest sample below that has this cause.
function deciders(model, parent, total, leaf, rows) {
  const decider = room("decider", Int32Array, leaf.length, -1);
  const from = room("from", Float64Array, leaf.length, 0);
  for (let row = 0; row < rows.length; row += 1) {
    const node = rows.node[row];
    if (rows.cause[row] !== leaf[node] || rows.weight[row] <= from[node]) continue;
    decider[node] = model.decider(rows.bundle[row]);
    from[node] = rows.weight[row];
  }
  for (let node = leaf.length - 1; node > 0; node -= 1) {
    const above = parent[node];
    if (leaf[node] === leaf[above] && total[node] > from[above]) {
      decider[above] = decider[node];
      from[above] = total[node];
    }
  }
  return decider;
}
