// A merged tree as it is drawn: nodes level by level, each level from left to right (engine/ordering.js), so that
//   - every caller precedes its callees (one pass forward or backward walks the tree),
//   - a level is the slice rows[depth] … rows[depth + 1], sorted by position: what is visible is matches by bisection.
// Node 0 holds everything. Positions and weights are in the event's own unit.

export class TreeTable {
  constructor(columns) {
    Object.assign(this, columns);
    this.size = this.parent.length;
    this.levels = this.rows.length - 1;
    this.extent = this.total[0];
    this.#layOut();
  }

  #layOut() {
    const { parent, total, size } = this;
    this.start = new Float64Array(size);
    // Siblings stand side by side, in the order of their places.
    for (let node = 1, above = -1, place = 0; node < size; node += 1) {
      if (parent[node] !== above) {
        above = parent[node];
        place = this.start[above];
      }
      this.start[node] = place;
      place += total[node];
    }
  }

  /** Columns as functions, for tables that have none. */
  frameOf(node) {
    return this.frame[node];
  }
  totalOf(node) {
    return this.total[node];
  }
  startOf(node) {
    return this.start[node];
  }
  leafOf(node) {
    return this.leaf[node];
  }
  purityOf(node) {
    return this.purity[node];
  }
  deciderOf(node) {
    return this.decider[node];
  }
  parentOf(node) {
    return this.parent[node];
  }
  markOf(node) {
    return this.marks ? this.marks[node] : -1;
  }

  /** What ends at a node: all but its callees. */
  selfOf(node) {
    const [first, last] = this.#children(node);
    let self = this.total[node];
    for (let callee = first; callee < last; callee += 1) self -= this.total[callee];
    return self;
  }

  depthOf(node) {
    let low = 0;
    let high = this.levels;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.rows[middle] <= node) low = middle;
      else high = middle;
    }
    return low;
  }

  #end(node) {
    return this.start[node] + this.total[node];
  }

  // First node of [low, high) that ends after `position`.
  #firstEndingAfter(position, low, high) {
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#end(middle) > position) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** The node of a level that covers `position`, or -1. */
  at(depth, position) {
    if (depth < 0 || depth >= this.levels) return -1;
    const high = this.rows[depth + 1];
    const node = this.#firstEndingAfter(position, this.rows[depth], high);
    return node < high && this.start[node] <= position ? node : -1;
  }

  /** Visit a level's nodes between two positions; of those closer together than `smallest` only one. */
  boxes(depth, from, to, smallest, visit) {
    const { start, total } = this;
    const high = this.rows[depth + 1];
    let node = this.#firstEndingAfter(from, this.rows[depth], high);
    while (node < high && start[node] < to) {
      visit(node, start[node], start[node] + total[node]);
      const reached = start[node] + smallest;
      const wide = total[node] >= smallest;
      node += 1;
      if (wide || node >= high || start[node] + total[node] > reached) continue;
      // The next one is near: stride out, then bisect.
      let stride = 2;
      while (node + stride < high && start[node + stride] + total[node + stride] <= reached) stride *= 2;
      node = this.#firstEndingAfter(reached, node + (stride >> 1), Math.min(node + stride, high));
    }
  }

  /** The deepest level that has a node of at least `smallest` between two positions. */
  deepest(from, to, smallest) {
    let depth = 0;
    for (; depth + 1 < this.levels; depth += 1) {
      const high = this.rows[depth + 2];
      let node = this.#firstEndingAfter(from, this.rows[depth + 1], high);
      while (node < high && this.start[node] < to && this.total[node] < smallest) node += 1;
      if (node >= high || this.start[node] >= to) break;
    }
    return depth;
  }

  /** From the root to `node`, both included. */
  path(node) {
    const nodes = [];
    for (let current = node; current > 0; current = this.parent[current]) nodes.push(current);
    nodes.push(0);
    return nodes.reverse();
  }

  /** The node that a path of functions leads to, or as far as it goes. */
  resolve(frames) {
    let node = 0;
    for (const frame of frames) {
      const [first, last] = this.#children(node);
      let next = first;
      while (next < last && this.frame[next] !== frame) next += 1;
      if (next === last) break;
      node = next;
    }
    return node;
  }

  /** The innermost node that covers two positions. */
  covering(from, to) {
    let innermost = 0;
    const middle = (from + to) / 2;
    const slack = this.extent * 1e-9;
    for (let depth = 1; depth < this.levels; depth += 1) {
      const node = this.at(depth, middle);
      if (node < 0 || this.start[node] > from + slack || this.#end(node) < to - slack) break;
      innermost = node;
    }
    return innermost;
  }

  // Callees as the half-open index range [first, last).
  #children(node) {
    const depth = this.depthOf(node);
    if (depth + 1 >= this.levels) return [0, 0];
    let first = this.rows[depth + 1];
    let high = this.rows[depth + 2];
    const stop = high;
    while (first < high) {
      const middle = (first + high) >> 1;
      if (this.parent[middle] < node) first = middle + 1;
      else high = middle;
    }
    let last = first;
    while (last < stop && this.parent[last] === node) last += 1;
    return [first, last];
  }

  firstChild(node) {
    const [first, last] = this.#children(node);
    return first < last ? first : node;
  }

  /** The sibling `step` places to the right, or the node itself at the end of the family. */
  sibling(node, step) {
    const next = node + step;
    return node > 0 && next > 0 && next < this.size && this.parent[next] === this.parent[node] ? next : node;
  }

  /** Remember per node: 2 its own name matches, 1 a caller's does, 0 neither. `matches` says so per function. */
  mark(matches) {
    this.marks = marksOf(this, matches);
  }

  /** Weight inside `zoom` of the stacks that pass through a match: nested matches count once. */
  matchedWeight(zoom) {
    const { marks, parent, total, start } = this;
    if (marks[zoom]) return total[zoom];
    const from = start[zoom];
    const to = this.#end(zoom);
    let weight = 0;
    for (let depth = this.depthOf(zoom) + 1; depth < this.levels; depth += 1) {
      const high = this.rows[depth + 1];
      for (
        let node = this.#firstEndingAfter(from, this.rows[depth], high);
        node < high && start[node] < to;
        node += 1
      ) {
        if (marks[node] === 2 && !marks[parent[node]]) weight += total[node];
      }
    }
    return weight;
  }

  /** Whether a node lies in the part of the table that `zoom` holds: its levels follow one another. */
  holds(zoom, node) {
    return node >= zoom && this.start[node] >= this.start[zoom] && this.start[node] < this.#end(zoom);
  }

  /** The next matching node after `node` in reading order, or the one before; -1 without any. */
  nextMatch(node, step) {
    for (let count = 0, at = node; count < this.size; count += 1) {
      at = (at + step + this.size) % this.size;
      if (this.marks[at] === 2) return at;
    }
    return -1;
  }
}

/** Per node of a tree 2 where `matches` has its function, 1 where it has a caller's; null without matches. */
export function marksOf({ frame, parent }, matches) {
  if (!matches) return null;
  const marks = new Uint8Array(parent.length);
  // The root has a name too where it is one function with its callers or callees.
  for (let node = 0; node < marks.length; node += 1) {
    if (matches[frame[node]]) marks[node] = 2;
    else if (marks[parent[node]]) marks[node] = 1;
  }
  return marks;
}
