// A grown forest as the columns of a table: totals, leading causes, and the order of display, level by level, each
// level from left to right with the heavier sibling first.

import { column, scratch } from "./memory.js";
import { nodeTotals } from "./totals.js";

/** A tree whose callees lie side by side. With `asks`, `ends` says per row of weights where its node stands in the table. */
export function tableOf(model, tree, rows, asks = false) {
  return ordered(tree, nodeTotals(model, tree, rows), asks ? rows : null);
}

function ordered({ parent: callers, frame, callees, length }, columns, asked) {
  const { total } = columns;
  let kept = 1;
  for (let node = 1; node < length; node += 1) {
    if (total[node] > 0) kept += 1;
  }
  const order = scratch("order", Int32Array, kept, 0);
  const parent = column(Int32Array, kept);
  parent[0] = -1;
  const rows = [0, 1];
  let filled = 1;
  for (let low = 0, high = 1; low < high; low = high, high = filled) {
    for (let at = low; at < high; at += 1) {
      const eldest = filled;
      const end = callees[order[at] + 1];
      for (let node = callees[order[at]]; node < end; node += 1) {
        if (total[node] === 0) continue;
        order[filled] = node;
        parent[filled] = at;
        filled += 1;
      }
      if (filled - eldest > 1) sortHeaviest(order, eldest, filled, total);
    }
    if (filled > high) rows.push(filled);
  }
  return {
    ...(asked && { ends: places(order, callers, length, asked) }),
    kind: "tree",
    rows,
    parent,
    ...picked(order, { ...columns, frame }),
  };
}

// One loop for all columns, and each access of one type.
function picked(order, { frame, total, leaf, decider, purity }) {
  const size = order.length;
  const [frames, deciders] = [0, 1].map(() => column(Int32Array, size));
  const totals = column(Float64Array, size);
  const leaves = column(Int16Array, size);
  const purities = column(Uint8Array, size);
  for (let at = 0; at < size; at += 1) {
    const node = order[at];
    frames[at] = frame[node];
    totals[at] = total[node];
    leaves[at] = leaf[node];
    deciders[at] = decider[node];
    purities[at] = purity[node];
  }
  return { frame: frames, total: totals, leaf: leaves, decider: deciders, purity: purities };
}

// What ends in a node without weight, which is not drawn, stands at the nearest caller that is.
function places(order, callers, length, asked) {
  const place = scratch("place", Int32Array, length, -1);
  for (let at = 0; at < order.length; at += 1) place[order[at]] = at;
  for (let node = 1; node < length; node += 1) if (place[node] < 0) place[node] = place[callers[node]];
  return asked.node.slice(0, asked.length).map((node) => place[node]);
}

// Heavier nodes first, equal ones as they come. Families are small: insertion sort, and a real one for the few large.
export function sortHeaviest(order, low, high, total) {
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
