// What the reader has asked for: one plain object, its history for undo and redo, and its way into the address bar.

export const START = {
  event: 0, // index of the event
  range: -1, // index of the range, -1 for the whole recording
  span: null, // [from, to] in µs since the first sample
  causes: [], // these four list what is shown; empty for all
  dsos: [],
  modes: [],
  threads: [],
  opportunity: -1, // the one whose samples are shown
  split: false, // a node per thread under the root
  inverted: false, // innermost functions first
  order: "weight", // or "time"
  flame: false, // callers at the bottom
  colour: "cause", // or "module", "mode"; of a comparison "change", "difference"
  side: "after", // of a comparison, whose weights are the widths: or "before", "both"
  sandwich: -1, // the function whose callers and callees are shown
  focus: -1, // changes to the stacks, by function
  hide: [],
  drop: [],
  fold: [],
  modules: [], // the same, by module
  search: "",
  zoom: [], // the functions on the way to the zoomed one
  upper: [], // the same among the callers of a sandwich
  view: null, // [from, to] as parts of the zoomed function, when it is not shown whole
  time: null, // [from, to] in µs since the timeline's start, when the timeline is not shown whole
};

/** Keys of what every view of the page is filtered by. */
export const FILTERS = ["range", "span", "causes", "dsos", "modes", "threads", "opportunity"];
/** Keys of what changes the flamegraph's stacks. */
export const CHANGES = ["sandwich", "focus", "hide", "drop", "fold", "modules"];

/** Whether a key of the state is not as it was at the start. */
export function differs(state, key) {
  return JSON.stringify(state[key]) !== JSON.stringify(START[key]);
}

const CHOICES = { order: ["weight", "time"], colour: ["cause", "module", "mode"], side: ["after", "before", "both"] };
const LONGEST_HISTORY = 200;

export class Store {
  /**
   * `words` translates values to words in the address: key → list of words by index; `sizes` bounds other indices. `own`
   * are a page's own values of the start, and `choices` what it allows beyond those that every page has.
   */
  constructor(words, sizes, { own = {}, choices = {} } = {}) {
    this.words = words;
    this.sizes = sizes;
    this.start = { ...START, ...own };
    this.choices = { ...CHOICES, ...choices };
    this.listeners = [];
    this.past = [];
    this.future = [];
    this.state = { ...this.start, ...this.#read() };
    window.addEventListener("hashchange", () => {
      const asked = this.#read();
      const next = { ...this.start, ...asked };
      if (asked && this.#address(next) !== this.#address(this.state)) this.set(next);
    });
  }

  /** Call `listener(state, before)` after every change. */
  subscribe(listener) {
    this.listeners.push(listener);
  }

  /** Call `listener(state)` now, and after every change of one of some keys. */
  follow(keys, listener) {
    this.subscribe((state, before) => {
      if (keys.some((key) => state[key] !== before[key])) listener(state);
    });
    listener(this.state);
  }

  /** Change some keys; with `merge` the change joins the one before, so that one undo takes back both. */
  set(patch, { merge = false } = {}) {
    const next = { ...this.state, ...patch };
    if (JSON.stringify(next) === JSON.stringify(this.state)) return;
    if (!merge) {
      this.past.push(this.state);
      if (this.past.length > LONGEST_HISTORY) this.past.shift();
    }
    this.future = [];
    this.#show(next);
  }

  /** Back to the start in some keys. */
  clear(keys) {
    this.set(Object.fromEntries(keys.map((key) => [key, this.start[key]])));
  }

  /** Add a value to a list, or take it out. */
  toggle(key, value) {
    const list = this.state[key];
    this.set({ [key]: list.includes(value) ? list.filter((other) => other !== value) : [...list, value] });
  }

  /** Adds all values to a list, or takes them out of it where it has them all. */
  toggleAll(key, values) {
    const others = this.state[key].filter((other) => !values.includes(other));
    const all = this.state[key].length - others.length === values.length;
    this.set({ [key]: all ? others : [...others, ...values] });
  }

  undo() {
    if (!this.past.length) return;
    this.future.push(this.state);
    this.#show(this.past.pop());
  }

  redo() {
    if (!this.future.length) return;
    this.past.push(this.state);
    this.#show(this.future.pop());
  }

  #show(next) {
    const before = this.state;
    this.state = next;
    this.#write();
    for (const listener of this.listeners) listener(next, before);
  }

  // #event=1&cause=pin.faultin&zoom=3.17.4: only what differs from the start.
  #address(state) {
    const parts = [];
    for (const [key, start] of Object.entries(this.start)) {
      const value = state[key];
      if (JSON.stringify(value) === JSON.stringify(start)) continue;
      const words = this.words[key];
      const text = Array.isArray(value)
        ? value.map((entry) => words?.[entry] ?? entry).join(words ? "," : "_")
        : String(words?.[value] ?? value);
      parts.push(`${key}=${encodeURIComponent(text)}`);
    }
    return parts.join("&");
  }

  #write() {
    const address = this.#address(this.state);
    if (!address && !location.hash.includes("=")) return;
    history.replaceState(null, "", `#${address}`);
  }

  // null for a fragment that names a section. A value that cannot be meant is left out.
  #read() {
    const fragment = location.hash.slice(1);
    if (!fragment.includes("=")) return null;
    const asked = {};
    for (const [key, text] of new URLSearchParams(fragment)) {
      if (!Object.hasOwn(START, key)) continue;
      const value = this.#parsed(key, text);
      if (value !== undefined) asked[key] = value;
    }
    return asked;
  }

  #parsed(key, text) {
    const start = this.start[key];
    const words = this.words[key];
    const number = (word) => {
      const index = words ? words.indexOf(word) : Number(word);
      if (start === null) return Number.isFinite(index) ? index : undefined;
      return Number.isInteger(index) && index >= 0 && index < (this.sizes[key] ?? Infinity) ? index : undefined;
    };
    if (Array.isArray(start) || start === null) {
      const list = text
        .split(words ? "," : "_")
        .map(number)
        .filter((entry) => entry !== undefined);
      return start === null && !(list.length === 2 && list[0] < list[1]) ? undefined : list;
    }
    if (typeof start === "number") return number(text);
    if (typeof start === "boolean") return text === "true";
    return !this.choices[key] || this.choices[key].includes(text) ? text : undefined;
  }
}
