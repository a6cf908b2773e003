// The leaf-up tree as the columns of a table, straight in the order of display. A node of it is the set of rows whose
// stacks agree from their ends up to there; the next level parts each set by the next caller. Most sets are soon a
// single row, which is only followed to its root.

import { column } from "./memory.js";
import { sortHeaviest } from "./ordering.js";

const SEVERAL = -2;
const COLUMN_TYPES = {
  parent: Int32Array,
  frame: Int32Array,
  total: Float64Array,
  leaf: Int16Array,
  decider: Int32Array,
  purity: Uint8Array,
};

/**
 * `forest` holds the stacks, callers first; `rows` say what ends where (engine/derive.js). `ends` says per row where its
 * way through the table ends. A set without weight is no node: its rows stay where they were.
 */
export function inverted(model, forest, rows) {
  const sets = new Sets(model, forest, rows);
  const levels = [0, 1];
  while (sets.descend()) levels.push(sets.filled);
  const columns = Object.entries(sets.columns).map(([name, values]) => [name, values.subarray(0, sets.filled)]);
  return { kind: "tree", rows: levels, ends: sets.ends, ...Object.fromEntries(columns) };
}

class Sets {
  constructor(model, { parent, frame }, rows) {
    const size = rows.length;
    Object.assign(this, { cause: rows.cause, weight: rows.weight });
    this.threads = model.frames + model.dsos;
    // Per row the node it goes on from, 0 at the end of its way.
    this.here = new Int32Array(size);
    this.startsWith = null;
    this.decider = new Int32Array(size);
    this.ends = new Int32Array(size);
    for (let row = 0; row < size; row += 1) this.decider[row] = model.decider(rows.bundle[row]);
    const steps = this.#start(parent, frame, rows);
    // Room for all steps of all rows: pages of it that are never written never become memory.
    this.columns = Object.fromEntries(
      Object.entries(COLUMN_TYPES).map(([name, Type]) => [name, column(Type, steps + 1)]),
    );
    this.filled = 0;
    // The last level's sets: set `s` is node `filled - sets + s` and holds members[bounds[s]] … members[bounds[s + 1]].
    this.members = new Int32Array(size);
    this.parted = new Int32Array(size);
    this.through = new Int32Array(size);
    this.bounds = new Int32Array(size + 2);
    this.nextBounds = new Int32Array(size + 2);
    this.sets = 1;
    const functions = this.threads + model.threads;
    this.seenBy = new Int32Array(functions).fill(-1);
    this.kidOf = new Int32Array(functions);
    this.kids = {
      frame: new Int32Array(functions),
      count: new Int32Array(functions),
      free: new Int32Array(functions),
      cause: new Int16Array(functions),
      heaviest: new Int32Array(functions),
      total: new Float64Array(functions),
      order: new Int32Array(functions),
    };
    this.amounts = new Float64Array(model.causes);
    this.#root(size);
  }

  #start(parent, frame, rows) {
    const { threads } = this;
    const depth = new Int16Array(parent.length);
    const outermost = new Int32Array(parent.length);
    // Per node its function and where to go on from it: side by side, because both are asked for at once.
    this.chain = new Int32Array(2 * parent.length);
    for (let node = 1; node < parent.length; node += 1) {
      const above = parent[node];
      depth[node] = depth[above] + 1;
      outermost[node] = above ? outermost[above] : node;
      this.chain[2 * node] = frame[node];
      this.chain[2 * node + 1] = above && frame[above] < threads ? above : 0;
    }
    let steps = 0;
    for (let row = 0; row < rows.length; row += 1) {
      const end = rows.node[row];
      steps += depth[end];
      if (end > 0 && frame[end] < threads) this.here[row] = end;
      // The thread comes first where a stack stands under a node of its thread.
      const thread = frame[outermost[end]];
      if (thread < threads) continue;
      this.startsWith ??= new Int32Array(rows.length);
      this.startsWith[row] = thread;
    }
    return steps;
  }

  #root(size) {
    let total = 0;
    let count = 0;
    for (let row = 0; row < size; row += 1) {
      total += this.weight[row];
      this.members[row] = row;
    }
    this.#describe(-1, -1, total, this.members, 0, size);
    for (let row = 0; row < size; row += 1) {
      if (this.here[row] || this.startsWith) this.members[count++] = row;
    }
    this.bounds[1] = count;
  }

  /** Make the next level; false when there is none. */
  descend() {
    const { bounds, nextBounds, members, weight, cause, here, sets } = this;
    const first = this.filled - sets;
    this.kept = 0;
    this.made = 0;
    nextBounds[0] = 0;
    for (let set = 0; set < sets; set += 1) {
      const from = bounds[set];
      const to = bounds[set + 1];
      if (to - from === 1) {
        const row = members[from];
        const frame = this.#next(row);
        if (weight[row] === 0) continue;
        this.ends[row] = this.filled;
        this.#add(first + set, frame, weight[row], cause[row], row, 100);
        if (here[row]) this.parted[this.kept++] = row;
        nextBounds[++this.made] = this.kept;
      } else if (to > from) this.#part(first + set, from, to);
    }
    this.startsWith = null;
    [this.members, this.parted] = [this.parted, this.members];
    [this.bounds, this.nextBounds] = [nextBounds, bounds];
    this.sets = this.made;
    return this.made > 0;
  }

  // The function a row goes through next; the row moves on to its caller.
  #next(row) {
    if (this.startsWith) return this.startsWith[row];
    const at = 2 * this.here[row];
    this.here[row] = this.chain[at + 1];
    return this.chain[at];
  }

  // One set by callers: heavier ones first, rows in their order.
  #part(node, from, to) {
    const { members, parted, through, kids, kidOf, seenBy, weight, cause, here, nextBounds } = this;
    let count = 0;
    for (let at = from; at < to; at += 1) {
      const row = members[at];
      const frame = this.#next(row);
      const amount = weight[row];
      through[at] = frame;
      if (seenBy[frame] !== node) {
        seenBy[frame] = node;
        kidOf[frame] = count;
        kids.frame[count] = frame;
        kids.cause[count] = cause[row];
        kids.heaviest[count] = row;
        kids.count[count] = kids.total[count] = 0;
        kids.order[count] = count;
        count += 1;
      }
      const kid = kidOf[frame];
      kids.count[kid] += 1;
      kids.total[kid] += amount;
      if (kids.cause[kid] !== cause[row]) kids.cause[kid] = SEVERAL;
      if (amount > weight[kids.heaviest[kid]]) kids.heaviest[kid] = row;
    }
    if (count > 1) sortHeaviest(kids.order, 0, count, kids.total);
    let free = this.kept;
    for (let place = 0; place < count; place += 1) {
      const kid = kids.order[place];
      kids.free[kid] = free;
      free += kids.count[kid];
    }
    for (let at = from; at < to; at += 1) parted[kids.free[kidOf[through[at]]]++] = members[at];
    // Rows that have arrived count here, and are not followed further.
    let begin = this.kept;
    for (let place = 0; place < count; place += 1) {
      const kid = kids.order[place];
      const end = begin + kids.count[kid];
      const frame = kids.frame[kid];
      if (kids.total[kid] === 0) {
        begin = end;
        continue;
      }
      for (let at = begin; at < end; at += 1) this.ends[parted[at]] = this.filled;
      if (kids.cause[kid] === SEVERAL) this.#describe(node, frame, kids.total[kid], parted, begin, end);
      else this.#add(node, frame, kids.total[kid], kids.cause[kid], kids.heaviest[kid], 100);
      for (; begin < end; begin += 1) {
        if (here[parted[begin]]) parted[this.kept++] = parted[begin];
      }
      nextBounds[++this.made] = this.kept;
    }
  }

  // A node with several causes: its leading one, and the heaviest row of that.
  #describe(parent, frame, total, list, from, to) {
    const { amounts, cause, weight } = this;
    for (let at = from; at < to; at += 1) amounts[cause[list[at]]] += weight[list[at]];
    let lead = -1;
    for (let at = from; at < to; at += 1) {
      const one = cause[list[at]];
      if (lead < 0 || amounts[one] > amounts[lead] || (amounts[one] === amounts[lead] && one < lead)) lead = one;
    }
    let heaviest = -1;
    for (let at = from; at < to; at += 1) {
      const row = list[at];
      if (cause[row] === lead && (heaviest < 0 || weight[row] > weight[heaviest])) heaviest = row;
    }
    const purity = Math.floor((100 * amounts[lead]) / total || 0);
    for (let at = from; at < to; at += 1) amounts[cause[list[at]]] = 0;
    this.#add(parent, frame, total, lead, heaviest, purity);
  }

  #add(parent, frame, total, leaf, row, purity) {
    const { columns, filled } = this;
    columns.parent[filled] = parent;
    columns.frame[filled] = frame;
    columns.total[filled] = total;
    columns.leaf[filled] = leaf;
    columns.decider[filled] = row < 0 ? -1 : this.decider[row];
    columns.purity[filled] = purity;
    this.filled = filled + 1;
  }
}
