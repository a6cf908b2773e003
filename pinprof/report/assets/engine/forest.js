// A tree under construction, callers before callees, and the way of the recording's stacks into it: functions hidden,
// folded or dropped on the way.

const NOWHERE = -1;
const UNSEEN = -3;

export class Forest {
  constructor() {
    this.parent = new Int32Array(1024);
    this.frame = new Int32Array(1024);
    this.length = 0;
    this.add(-1, -1);
    this.slots = null;
  }

  /** Make room for `size` nodes. */
  reserve(size) {
    this.parent = grown(this.parent, size);
    this.frame = grown(this.frame, size);
  }

  add(parent, frame) {
    if (this.length === this.parent.length) {
      this.reserve(this.length * 2);
    }
    this.parent[this.length] = parent;
    this.frame[this.length] = frame;
    this.length += 1;
    return this.length - 1;
  }

  /** The callee `frame` of `parent`, made when it is new. */
  child(parent, frame) {
    if (!this.slots || this.length * 2 > this.slots.length) this.#rehash();
    const mask = this.slots.length - 1;
    let slot = hash(parent, frame) & mask;
    for (let node = this.slots[slot]; node; node = this.slots[slot]) {
      if (this.parent[node] === parent && this.frame[node] === frame) return node;
      slot = (slot + 1) & mask;
    }
    this.slots[slot] = this.length;
    return this.add(parent, frame);
  }

  /** As it is drawn from: level by level, callees of a node side by side; the nodes of `rows` are renumbered. */
  leveled(rows) {
    const { length } = this;
    const [parent, frame, callees, place] = [length, length, length + 1, length].map((size) => new Int32Array(size));
    const order = new Int32Array(length);
    const first = new Int32Array(length).fill(-1);
    const next = new Int32Array(length);
    for (let node = length - 1; node > 0; node -= 1) {
      next[node] = first[this.parent[node]];
      first[this.parent[node]] = node;
    }
    parent[0] = -1;
    frame[0] = this.frame[0];
    let filled = 1;
    for (let at = 0; at < length; at += 1) {
      callees[at] = filled;
      for (let node = first[order[at]]; node >= 0; node = next[node]) {
        order[filled] = node;
        parent[filled] = at;
        frame[filled] = this.frame[node];
        place[node] = filled;
        filled += 1;
      }
    }
    callees[length] = filled;
    for (let row = 0; row < rows.length; row += 1) rows.node[row] = place[rows.node[row]];
    return { parent, frame, callees, length };
  }

  // Open addressing; node 0 is nobody's callee and so marks a free slot.
  #rehash() {
    let size = 4096;
    while (size < this.length * 4) size *= 2;
    this.slots = new Int32Array(size);
    for (let node = 1; node < this.length; node += 1) {
      let slot = hash(this.parent[node], this.frame[node]) & (size - 1);
      while (this.slots[slot]) slot = (slot + 1) & (size - 1);
      this.slots[slot] = node;
    }
  }
}

export class Placer {
  /**
   * `edits`: focus (a function, or -1), hidden, dropped and folded functions, and folded modules. Functions of a folded
   * module become the function `model.frames + module`, threads `model.frames + model.dsos + thread`.
   */
  constructor(model, forest, edits) {
    Object.assign(this, { model, forest });
    this.focus = edits.focus ?? -1;
    this.hidden = new Set(edits.hide);
    this.dropped = new Set(edits.drop);
    this.folded = new Set(edits.fold);
    this.modules = new Set(edits.modules);
    this.plain = this.focus < 0 && ![this.hidden, this.dropped, this.folded, this.modules].some((set) => set.size);
    this.to = new Int32Array(model.tree.length).fill(UNSEEN);
    this.root = 0;
    this.waiting = [];
  }

  /** Place what follows under a thread of its own. */
  startThread(thread) {
    this.root = this.forest.add(0, this.model.frames + this.model.dsos + thread);
    this.to.fill(UNSEEN);
  }

  /** The forest's node for a node of the recording; -1 when its samples are left out. */
  place(node) {
    const { to, waiting } = this;
    const { parent, frame } = this.model.tree;
    let above = node;
    while (above > 0 && to[above] === UNSEEN) {
      waiting.push(above);
      above = parent[above];
    }
    let at = above > 0 ? to[above] : this.focus < 0 ? this.root : -2;
    while (waiting.length) {
      const next = waiting.pop();
      if (this.plain) at = this.forest.add(at, frame[next]);
      else at = this.#step(at, frame[next]);
      to[next] = at;
    }
    return at < 0 ? NOWHERE : at;
  }

  // -2: the focus is still to come; -1: left out.
  #step(at, frame) {
    if (at === NOWHERE || this.dropped.has(frame)) return NOWHERE;
    if (at === -2) return frame === this.focus ? this.forest.child(this.root, frame) : -2;
    const inside = this.forest.frame[at];
    if (this.folded.has(inside) || this.hidden.has(frame)) return at;
    const dso = this.model.frameDso[frame];
    if (!this.modules.has(dso)) return this.forest.child(at, frame);
    const stand = this.model.frames + dso;
    return inside === stand ? at : this.forest.child(at, stand);
  }
}

function grown(array, size) {
  if (size <= array.length) return array;
  const larger = new Int32Array(size);
  larger.set(array);
  return larger;
}

function hash(parent, frame) {
  let mixed = Math.imul(parent, 0x9e3779b1) ^ Math.imul(frame, 0x85ebca6b);
  mixed ^= mixed >>> 15;
  return Math.imul(mixed, 0x2c1b3c6d) >>> 3;
}
