// Functions by number, as readers see them. Beyond the recorded ones stand whole modules and threads (engine/forest.js).

export class Frames {
  constructor(page, { frameName, frameDso, frameKind }, names) {
    Object.assign(this, { page, frameName, frameDso, frameKind, names });
    this.count = frameName.length;
    this.threads = this.count + page.dsos.length;
  }

  nameOf(frame) {
    if (frame < 0) return "all";
    if (frame < this.count) return this.names[this.frameName[frame]];
    if (frame < this.threads) return `${this.page.dsos[frame - this.count] || "no module"} (module)`;
    return this.page.threads[frame - this.threads];
  }

  /** The module, or -1 for threads and everything. */
  dsoOf(frame) {
    if (frame < 0 || frame >= this.threads) return -1;
    return frame < this.count ? this.frameDso[frame] : frame - this.count;
  }

  /** 0 user, 1 kernel, 2 kernel module, -1 neither. */
  kindOf(frame) {
    return frame >= 0 && frame < this.count ? this.frameKind[frame] : -1;
  }

  /** Whether a recorded function, not a thread or a module. */
  isFunction(frame) {
    return frame >= 0 && frame < this.count;
  }

  /** Whether only the module of an address is known. */
  isUnresolved(frame) {
    return this.isFunction(frame) && this.nameOf(frame).startsWith("[");
  }

  /** Per function number, whether `test` accepts its name. */
  matching(test) {
    const byName = this.names.map(test);
    const matches = new Uint8Array(this.threads + this.page.threads.length);
    for (let frame = 0; frame < matches.length; frame += 1) {
      matches[frame] = frame < this.count ? byName[this.frameName[frame]] : test(this.nameOf(frame));
    }
    return matches;
  }
}

/** Plain text, or a regular expression between slashes; null for nothing to search. SyntaxError for an invalid one. */
export function matcher(query) {
  if (!query) return null;
  const expression = query.match(/^\/(.+)\/$/s);
  if (!expression) {
    const plain = query.toLowerCase();
    return (name) => name.toLowerCase().includes(plain);
  }
  const pattern = new RegExp(expression[1], "i");
  return (name) => pattern.test(name);
}
