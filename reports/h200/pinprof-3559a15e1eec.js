globalThis.pinprofPage = function () {
"use strict";
const TYPES = { Uint8: Uint8Array, Int16: Int16Array, Int32: Int32Array, Float64: Float64Array };
async function gunzip(bytes) {
const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
return new Response(stream).arrayBuffer();
}
function unpackColumns(buffer, layout) {
const planes = new Uint8Array(buffer);
const columns = {};
let offset = 0;
for (const [name, kind, length] of layout) {
const width = TYPES[kind].BYTES_PER_ELEMENT;
const bytes = width === 1 ? planes.slice(offset, offset + length) : new Uint8Array(length * width);
for (let plane = 0; width > 1 && plane < width; plane += 1) {
const from = offset + plane * length;
for (let index = 0, at = plane; index < length; index += 1, at += width) bytes[at] = planes[from + index];
}
offset += length * width;
columns[name] = new TYPES[kind](bytes.buffer);
}
return columns;
}
function summed(differences, Type) {
const sums = new Type(differences.length);
for (let index = 0, sum = 0; index < sums.length; index += 1) {
sum += differences[index];
sums[index] = sum;
}
return sums;
}
function byId(id) {
return document.getElementById(id);
}
function readJson(id) {
return JSON.parse(document.getElementById(id).textContent);
}
function embedded(id) {
const text = document.getElementById(id).textContent;
if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
const binary = atob(text.trim());
const bytes = new Uint8Array(binary.length);
for (let index = 0; index < binary.length; index += 1) bytes[index] = binary.charCodeAt(index);
return bytes;
}
async function inflatedText(id) {
return new TextDecoder().decode(await gunzip(embedded(id)));
}
function element(tag, className, text) {
const node = document.createElement(tag);
if (className) node.className = className;
if (text !== undefined) node.textContent = text;
return node;
}
function makeButton(className, text, title, press) {
const button = element("button", className, text);
button.type = "button";
if (title) button.title = title;
button.addEventListener("click", press);
return button;
}
const SVG = "http://www.w3.org/2000/svg";
function svgElement(tag, attributes) {
const node = document.createElementNS(SVG, tag);
for (const [name, value] of Object.entries(attributes)) if (value !== undefined) node.setAttribute(name, value);
return node;
}
function swatchEntry(className, colour, ...content) {
const entry = element("span", className);
entry.append(element("span", `swatch ${colour}`), ...content);
return entry;
}
const SAID_MS = 2000;
function startCopying() {
const said = document.body.appendChild(element("p", "sr"));
said.setAttribute("role", "status");
for (const button of document.querySelectorAll("button[data-copies]")) {
button.hidden = false;
button.addEventListener("click", async () => {
const copied = await copyTextOf(byId(button.dataset.copies));
button.textContent = copied ? "Copied" : "Selected";
said.textContent = copied ? "Copied" : "Selected: copy it with Ctrl+C";
setTimeout(() => {
button.textContent = "Copy";
said.textContent = "";
}, SAID_MS);
});
}
}
async function copyTextOf(source) {
try {
await navigator.clipboard.writeText(source.textContent);
return true;
} catch {
getSelection().selectAllChildren(source);
return false;
}
}
const MOST_PAGE_PX = 12 * 900;
const LEAST_SECTION_PX = 240;
const BUTTON_PX = 56;
const NEVER_CUT = "#flame";
const COUNTED_PARTS = [
[".gain", "opportunity", "opportunities"],
["tbody tr", "row", "rows"],
];
function startBounding() {
const all = [...document.querySelectorAll("main > section")];
const sections = all.filter((section) => !section.matches(NEVER_CUT));
const opened = new Set();
let asked = 0;
const fit = () => {
asked = 0;
const each = heightEach(sections);
for (const section of sections) {
const most = each * roomOf(section);
if (opened.has(section) || section.scrollHeight <= most + BUTTON_PX) showWhole(section);
else showStart(section, most, () => open(section));
}
};
const later = () => {
if (!asked) asked = requestAnimationFrame(fit);
};
const open = (section) => {
opened.add(section);
showWhole(section);
section.scrollTop = 0;
};
const watch = new ResizeObserver(later);
for (const child of all.flatMap((section) => [...section.children])) watch.observe(child);
for (const section of sections) {
section.addEventListener("scroll", () => section.scrollTop && open(section));
}
fit();
}
function roomOf(section) {
return section.matches("#opportunities") ? 2 : 1;
}
function heightEach(sections) {
const shown = sections.reduce((sum, { offsetHeight }) => sum + offsetHeight, 0);
let room = MOST_PAGE_PX - (document.documentElement.scrollHeight - shown);
let rooms = sections.reduce((sum, section) => sum + roomOf(section), 0);
const byHeight = sections.map((section) => ({ own: roomOf(section), height: section.scrollHeight }));
byHeight.sort((one, other) => one.height / one.own - other.height / other.own);
for (const { own, height } of byHeight) {
const each = room / rooms;
if (height > each * own) return Math.max(Math.floor(each) - BUTTON_PX, LEAST_SECTION_PX);
room -= height;
rooms -= own;
}
return Number.POSITIVE_INFINITY;
}
function showStart(section, most, open) {
section.style.setProperty("--most", `${most}px`);
section.classList.add("cut");
const button = section.querySelector(":scope > .uncut") ?? section.appendChild(makeButton("uncut", "", "", open));
button.textContent = `Show the rest: ${restOf(section, most)}`;
}
function showWhole(section) {
section.classList.remove("cut");
section.querySelector(":scope > .uncut")?.remove();
}
function restOf(section, most) {
const below = section.getBoundingClientRect().top + most - BUTTON_PX;
const words = [];
for (const [selector, one, many] of COUNTED_PARTS) {
const parts = [...section.querySelectorAll(selector)].filter(
(part) => part.offsetParent && !part.closest("details:not([open])"),
);
const count = parts.filter((part) => part.getBoundingClientRect().bottom > below).length;
if (count) words.push(`${count} ${count === 1 ? one : many}`);
}
return (
words.join(", ") || `${Math.round((100 * (section.scrollHeight - most)) / section.scrollHeight)} % of this section`
);
}
const PADDING = 16;
function fitLabels(bar) {
const whole = bar.clientWidth || bar.getBoundingClientRect().width;
for (const label of bar.querySelectorAll(".label, .parts > svg")) {
const room = (whole * Number.parseFloat(label.getAttribute("width"))) / 100 - PADDING;
for (const text of label.querySelectorAll("text")) {
text.style.visibility = text.getComputedTextLength() > room ? "hidden" : "";
}
}
}
function startFitting() {
const watch = new ResizeObserver((entries) => {
for (const { target } of entries) {
if (target.matches(".bar, .parts")) fitLabels(target);
else target.classList.toggle("wider", target.scrollWidth > target.clientWidth + 1);
}
});
for (const bar of document.querySelectorAll(".bar:has(.label), .parts")) watch.observe(bar);
for (const place of document.querySelectorAll(".scroll, .sections")) watch.observe(place);
startBounding();
}
function startFramed() {
if (window.parent === window) return;
new ResizeObserver(() => {
window.parent.postMessage({ pinprofHeight: Math.ceil(document.body.getBoundingClientRect().height) }, "*");
}).observe(document.body);
}
function sizesOf(page) {
const { dsos, frames, threads } = page.flame.facts;
const functions = Object.fromEntries(["sandwich", "focus", "hide", "drop", "fold"].map((key) => [key, frames]));
return {
...functions,
event: page.events.length,
range: page.timed || !threads ? page.ranges.length : 0,
dsos,
modules: dsos,
threads: page.threads.length,
opportunity: page.opportunities?.length ?? 0,
modes: 3,
};
}
function startSections() {
for (const link of document.querySelectorAll(".sections a")) {
link.addEventListener("click", (event) => {
if (!location.hash.includes("=")) return;
event.preventDefault();
document.querySelector(link.getAttribute("href")).scrollIntoView();
});
}
}
function startPrinting(redraw) {
const root = document.documentElement;
let chosen = root.dataset.theme;
const show = (theme) => {
root.dataset.theme = theme;
redraw();
};
window.addEventListener("beforeprint", () => {
chosen = root.dataset.theme;
show("light");
});
window.addEventListener("afterprint", () => show(chosen));
}
function scriptText() {
return globalThis.pinprofPage ? `(${globalThis.pinprofPage})();` : byId("page-script").textContent;
}
const START = {
event: 0,
range: -1,
span: null,
causes: [],
dsos: [],
modes: [],
threads: [],
opportunity: -1,
split: false,
inverted: false,
order: "weight",
flame: false,
colour: "cause",
side: "after",
sandwich: -1,
focus: -1,
hide: [],
drop: [],
fold: [],
modules: [],
search: "",
zoom: [],
upper: [],
view: null,
time: null,
};
const FILTERS = ["range", "span", "causes", "dsos", "modes", "threads", "opportunity"];
const CHANGES = ["sandwich", "focus", "hide", "drop", "fold", "modules"];
function differs(state, key) {
return JSON.stringify(state[key]) !== JSON.stringify(START[key]);
}
const CHOICES = { order: ["weight", "time"], colour: ["cause", "module", "mode"], side: ["after", "before", "both"] };
const LONGEST_HISTORY = 200;
class Store {
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
subscribe(listener) {
this.listeners.push(listener);
}
follow(keys, listener) {
this.subscribe((state, before) => {
if (keys.some((key) => state[key] !== before[key])) listener(state);
});
listener(this.state);
}
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
clear(keys) {
this.set(Object.fromEntries(keys.map((key) => [key, this.start[key]])));
}
toggle(key, value) {
const list = this.state[key];
this.set({ [key]: list.includes(value) ? list.filter((other) => other !== value) : [...list, value] });
}
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
const KEY = "pinprof-theme";
function startTheme(button, changed) {
const root = document.documentElement;
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const apply = (theme) => {
root.dataset.theme = theme;
const other = theme === "dark" ? "light" : "dark";
button.textContent = other === "dark" ? "☾" : "☀";
button.title = `Switch to the ${other} theme`;
button.setAttribute("aria-label", button.title);
changed();
};
apply(remembered() || (dark.matches ? "dark" : "light"));
button.hidden = false;
button.addEventListener("click", () => {
const theme = root.dataset.theme === "dark" ? "light" : "dark";
remember(theme);
apply(theme);
});
dark.addEventListener("change", () => {
if (!remembered()) apply(dark.matches ? "dark" : "light");
});
}
function themed(property) {
return getComputedStyle(document.documentElement).getPropertyValue(property).trim();
}
function remembered() {
try {
return localStorage.getItem(KEY);
} catch {
return null;
}
}
function remember(theme) {
try {
localStorage.setItem(KEY, theme);
} catch {
return;
}
}
function showTip(tip, at, title, ...content) {
tip.replaceChildren(element("strong", "", title), ...content);
const { width } = tip.getBoundingClientRect();
tip.style.left = `${Math.max(8, Math.min(at.clientX + 12, document.documentElement.clientWidth - width - 8))}px`;
tip.style.top = `${at.clientY + 18}px`;
}
const SCRATCH = new Map();
const MOST_SPARE = 48;
const spare = [];
function scratch(name, Type, size, value) {
let array = SCRATCH.get(name);
if (!array || array.length < size) {
array = new Type(size);
SCRATCH.set(name, array);
}
return array.subarray(0, size).fill(value);
}
function column(Type, size) {
const bytes = size * Type.BYTES_PER_ELEMENT;
let best = -1;
for (let index = 0; index < spare.length; index += 1) {
const there = spare[index].byteLength;
if (there >= bytes && (best < 0 || there < spare[best].byteLength)) best = index;
}
const [buffer] = best < 0 ? [new ArrayBuffer(bytes)] : spare.splice(best, 1);
return new Type(buffer, 0, size);
}
function recycle(buffers) {
spare.push(...buffers);
if (spare.length > MOST_SPARE) spare.splice(0, spare.length - MOST_SPARE);
}
const UNTESTED = 0;
const TOO_FEW = 1;
const CHANCE = 2;
const SIGNIFICANT = 3;
function sideWeights({ bundles, sides, scales }, event, side) {
const parts = sharesOf(sides, scales[event], side);
return Float64Array.from(bundles.weight, (weight, bundle) => weight * parts[bundles.threads[bundle]]);
}
function sharesOf(sides, scales, side) {
const runs = [0, 1].map((one) => sides.filter((other) => other === one).length);
const wanted = { before: [0], after: [1], both: [0, 1] }[side];
return sides.map((one, run) => (wanted.includes(one) ? scales[run] / runs[one] : 0));
}
function changes({ bundles, sides, scales, tests }, event, { parent }, ends, rows) {
const size = parent.length;
const runs = sides.map((side, run) => ({ side, run, scale: scales[event][run] }));
const [before, after] = [0, 1].map(() => column(Float64Array, size).fill(0));
const sure = column(Uint8Array, size).fill(UNTESTED);
const test = tests[event];
const scatter = new Scatter(size);
const [weight, count] = [0, 1].map(() => new Float64Array(size));
for (const { side, run, scale } of runs) {
weight.fill(0);
count.fill(0);
for (let row = 0; row < rows.length; row += 1) {
const bundle = rows.bundle[row];
if (bundles.threads[bundle] !== run) continue;
weight[ends[row]] += bundles.weight[bundle];
count[ends[row]] += bundles.count[bundle];
}
for (let node = size - 1; node > 0; node -= 1) {
weight[parent[node]] += weight[node];
count[parent[node]] += count[node];
}
const mean = side ? after : before;
const members = runs.filter((other) => other.side === side).length;
for (let node = 0; node < size; node += 1) mean[node] += (weight[node] * scale) / members;
scatter.add(side, scale, weight, count);
}
const columns = { before, after, sure };
scatter.judge(test, columns);
return columns;
}
function hiddenWeight({ bundles, sides, scales }, event, { parent, length }, rows) {
const seen = new Uint8Array(length);
for (let row = 0; row < rows.length; row += 1) if (rows.weight[row] > 0) seen[rows.node[row]] = 1;
for (let node = length - 1; node > 0; node -= 1) if (seen[node]) seen[parent[node]] = 1;
const parts = sharesOf(sides, scales[event], "both");
let hidden = 0;
for (let row = 0; row < rows.length; row += 1) {
const bundle = rows.bundle[row];
if (!seen[rows.node[row]]) hidden += bundles.weight[bundle] * parts[bundles.threads[bundle]];
}
return hidden;
}
class Scatter {
constructor(size) {
this.size = size;
this.runs = [0, 0];
this.sums = [0, 1].map(() => new Float64Array(size));
this.squares = [0, 1].map(() => new Float64Array(size));
this.least = [0, 1].map(() => new Float64Array(size));
this.samples = [0, 1].map(() => new Float64Array(size));
}
add(side, scale, weight, count) {
const sample = count[0] ? weight[0] / count[0] : 1;
this.runs[side] += 1;
for (let node = 0; node < this.size; node += 1) {
const amount = Math.log(scale * (weight[node] + sample / 2));
this.sums[side][node] += amount;
this.squares[side][node] += amount * amount;
this.least[side][node] += 1 / (count[node] + 0.5);
this.samples[side][node] += count[node];
}
}
judge({ critical, least, ratio }, { before, after, sure }) {
const { runs, sums, squares } = this;
const freedom = runs[0] + runs[1] - 2;
for (let node = 0; node < this.size; node += 1) {
if (Math.max(this.samples[0][node], this.samples[1][node]) < least) {
sure[node] = TOO_FEW;
continue;
}
if (critical === null) continue;
const spread = [0, 1].map((side) => Math.max(squares[side][node] - sums[side][node] ** 2 / runs[side], 0));
const variance = (spread[0] + spread[1]) / freedom;
const [error, counting] = [0, 1].map((floor) =>
[0, 1].reduce((sum, side) => sum + (floor ? this.least[side][node] / runs[side] : variance) / runs[side], 0),
);
const apart = Math.abs(sums[1][node] / runs[1] - sums[0][node] / runs[0]);
const change = Math.abs(after[node] - before[node]) / Math.max(after[node], before[node]);
const large = change > ratio && apart > critical * Math.sqrt(Math.max(error, counting));
sure[node] = large ? SIGNIFICANT : CHANCE;
}
}
}
const NOWHERE = -1;
const UNSEEN = -3;
class Forest {
constructor() {
this.parent = new Int32Array(1024);
this.frame = new Int32Array(1024);
this.length = 0;
this.add(-1, -1);
this.slots = null;
}
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
class Placer {
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
startThread(thread) {
this.root = this.forest.add(0, this.model.frames + this.model.dsos + thread);
this.to.fill(UNSEEN);
}
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
const NONE = -1;
const MIXED = -2;
const PER_CLIMB = 32;
function nodeTotals(model, tree, rows) {
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
function carry(tree, { size, at, weight, by }) {
for (let index = 0; index < size; index += 1) add(tree, at[index], weight[index], weight[index], by[index]);
for (let node = tree.above.length - 1; node > 0; node -= 1) {
if (tree.amount[node] > 0) add(tree, tree.above[node], tree.amount[node], tree.most[node], tree.by[node]);
}
}
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
function tableOf(model, tree, rows, asks = false) {
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
function places(order, callers, length, asked) {
const place = scratch("place", Int32Array, length, -1);
for (let at = 0; at < order.length; at += 1) place[order[at]] = at;
for (let node = 1; node < length; node += 1) if (place[node] < 0) place[node] = place[callers[node]];
return asked.node.slice(0, asked.length).map((node) => place[node]);
}
function sortHeaviest(order, low, high, total) {
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
const SEVERAL = -2;
const COLUMN_TYPES = {
parent: Int32Array,
frame: Int32Array,
total: Float64Array,
leaf: Int16Array,
decider: Int32Array,
purity: Uint8Array,
};
function inverted(model, forest, rows) {
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
this.here = new Int32Array(size);
this.startsWith = null;
this.decider = new Int32Array(size);
this.ends = new Int32Array(size);
for (let row = 0; row < size; row += 1) this.decider[row] = model.decider(rows.bundle[row]);
const steps = this.#start(parent, frame, rows);
this.columns = Object.fromEntries(
Object.entries(COLUMN_TYPES).map(([name, Type]) => [name, column(Type, steps + 1)]),
);
this.filled = 0;
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
#next(row) {
if (this.startsWith) return this.startsWith[row];
const at = 2 * this.here[row];
this.here[row] = this.chain[at + 1];
return this.chain[at];
}
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
function derive(model, query) {
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
function drawn(model, { event }, table, rows) {
return model.sides ? { ...table, ...changes(model, event, table, table.ends, rows) } : table;
}
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
function topmost(forest, frame) {
const top = new Int32Array(forest.length).fill(-1);
for (let node = 1; node < forest.length; node += 1) {
const above = top[forest.parent[node]];
top[node] = above >= 0 ? above : forest.frame[node] === frame ? node : -1;
}
return top;
}
function rootedForest({ sandwich, split }) {
const forest = new Forest();
if (!split) forest.frame[0] = sandwich;
return forest;
}
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
function inTime(model, query, selection) {
const forest = new Forest();
const placer = new Placer(model, forest, query.edits);
const { bundleOf, bundles } = model;
const samples = model.samples(selection);
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
columns.start[count + 1] = columns.start[count] + model.weight[sample];
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
const FACETS = ["causes", "dsos", "modes", "threads"];
const UNKNOWN = -3;
const DEEPEST = 2 ** 15 + 1;
class Model {
constructor(buffer, layout, facts) {
const columns = unpackColumns(buffer, layout);
Object.assign(this, facts);
this.frameName = columns.frameName;
this.frameDso = columns.frameDso;
this.frameKind = columns.frameKind;
this.weight = columns.weight;
this.time = summed(columns.time, Float64Array);
this.range = { path: columns.rangePath, first: columns.rangeFirst, last: columns.rangeLast };
this.#buildTree(columns);
this.#bundleSamples(columns);
}
#buildTree({ depth: steps, frame: frames, decided, leaf, opportunity, opportunityNode }) {
const length = steps.length + 1;
const depth = summed(steps, Int16Array);
const free = new Int32Array(DEEPEST);
free[0] = 1;
for (let node = 0; node < depth.length; node += 1) free[depth[node] + 1] += 1;
for (let level = 1; level < DEEPEST; level += 1) free[level] += free[level - 1];
const [parent, frame, callees, place] = [length, length, length + 1, length - 1].map(
(size) => new Int32Array(size),
);
parent[0] = -1;
frame[0] = -1;
callees[0] = 1;
this.decided = new decided.constructor(length);
const last = new Int32Array(DEEPEST);
for (let node = 0; node < depth.length; node += 1) {
const level = depth[node];
const at = free[level]++;
place[node] = at;
parent[at] = last[level];
last[level + 1] = at;
frame[at] = frames[node];
callees[last[level] + 1] += 1;
this.decided[at] = decided[node];
}
for (let node = 0; node < length; node += 1) callees[node + 1] += callees[node];
this.tree = { parent, frame, callees, length };
this.leaf = summed(leaf, Int32Array).map((node) => place[node]);
this.opportunity = { of: opportunity, node: summed(opportunityNode, Int32Array).map((node) => place[node]) };
}
#bundleSamples({ stack, event, cause, thread, likely, weight, count: counts }) {
const samples = stack.length;
const first = new Int32Array(this.leaf.length).fill(-1);
const next = new Int32Array(samples);
const [sums, counted] = [0, 1].map(() => new Float64Array(samples));
const example = new Int32Array(samples);
const bundleOf = new Int32Array(samples);
let count = 0;
for (let sample = 0; sample < samples; sample += 1) {
const at = stack[sample];
let before = -1;
let bundle = first[at];
while (bundle >= 0) {
const other = example[bundle];
if (
cause[other] === cause[sample] &&
thread[other] === thread[sample] &&
event[other] === event[sample] &&
likely[other] === likely[sample]
)
break;
before = bundle;
bundle = next[bundle];
}
if (bundle < 0) {
bundle = count;
count += 1;
example[bundle] = sample;
next[bundle] = first[at];
first[at] = bundle;
} else if (before >= 0) {
next[before] = next[bundle];
next[bundle] = first[at];
first[at] = bundle;
}
bundleOf[sample] = bundle;
sums[bundle] += weight[sample];
if (counts) counted[bundle] += counts[sample];
}
const pick = (column) => {
const picked = new column.constructor(count);
for (let bundle = 0; bundle < count; bundle += 1) picked[bundle] = column[example[bundle]];
return picked;
};
const [node, dsos, modes] = [Int32Array, Int32Array, Uint8Array].map((Type) => new Type(count));
for (let bundle = 0; bundle < count; bundle += 1) {
node[bundle] = this.leaf[stack[example[bundle]]];
const frame = this.tree.frame[node[bundle]];
dsos[bundle] = this.frameDso[frame];
modes[bundle] = this.frameKind[frame];
}
this.bundleOf = bundleOf;
this.bundles = {
length: count,
node,
dsos,
modes,
weight: sums.slice(0, count),
count: counted.slice(0, count),
decider: new Int32Array(count).fill(UNKNOWN),
event: pick(event),
causes: pick(cause),
threads: pick(thread),
likely: pick(likely),
};
}
select(query) {
const { bundles } = this;
const { event, causes, dsos, modes, threads } = bundles;
const sizes = [this.causes, this.dsos, 3, this.threads];
const [causeIn, dsoIn, modeIn, threadIn] = FACETS.map((facet, index) => chosen(query[facet], sizes[index]));
const weights = sizes.map((size) => new Float64Array(size));
const [byCause, byDso, byMode, byThread] = weights;
const { inside, amounts, all: everything } = this.#weights(query);
const member = this.nodesOf(query.opportunity);
const rows = new Int32Array(bundles.length);
let count = 0;
let total = 0;
let whole = 0;
for (let bundle = 0; bundle < bundles.length; bundle += 1) {
if (event[bundle] !== query.event) continue;
whole += everything[bundle];
const amount = amounts[bundle];
if ((amount === 0 && !this.sides) || (member && !member[bundles.node[bundle]])) continue;
const [cause, dso, mode, thread] = [causes[bundle], dsos[bundle], modes[bundle], threads[bundle]];
const passed = causeIn[cause] + dsoIn[dso] + modeIn[mode] + threadIn[thread];
if (passed < 3) continue;
const all = passed === 4;
if (all || causeIn[cause] === 0) byCause[cause] += amount;
if (all || dsoIn[dso] === 0) byDso[dso] += amount;
if (all || modeIn[mode] === 0) byMode[mode] += amount;
if (all || threadIn[thread] === 0) byThread[thread] += amount;
if (!all) continue;
rows[count] = bundle;
count += 1;
total += amount;
}
const facets = Object.fromEntries(FACETS.map((facet, index) => [facet, weights[index]]));
return { rows: rows.subarray(0, count), amounts, inside, total, whole, facets };
}
#weights({ span, range, event, side }) {
if (!this.sides) return { ...this.within(span, range), all: this.bundles.weight };
const amounts = sideWeights(this, event, side);
return { inside: null, amounts, all: amounts };
}
nodesOf(opportunity) {
if (!(opportunity >= 0)) return null;
const member = new Uint8Array(this.tree.length);
const { of, node } = this.opportunity;
for (let at = 0; at < of.length; at += 1) if (of[at] === opportunity) member[node[at]] = 1;
return member;
}
samples({ rows, inside }) {
const { bundleOf } = this;
const wanted = new Uint8Array(this.bundles.length);
for (const bundle of rows) wanted[bundle] = 1;
const samples = new Int32Array(bundleOf.length);
let count = 0;
for (let sample = 0; sample < bundleOf.length; sample += 1) {
if (wanted[bundleOf[sample]] === 0 || (inside && inside[sample] === 0)) continue;
samples[count] = sample;
count += 1;
}
return samples.subarray(0, count);
}
within(span, range = -1) {
const { bundles, bundleOf, weight } = this;
if (range < 0 && !span) return { inside: null, amounts: bundles.weight };
const inside = new Uint8Array(weight.length).fill(range < 0 ? 1 : 0);
for (let run = 0; range >= 0 && run < this.range.path.length; run += 1) {
if (this.range.path[run] === range) inside.fill(1, this.range.first[run], this.range.last[run]);
}
const amounts = new Float64Array(bundles.length);
for (let sample = 0; sample < inside.length; sample += 1) {
if (span && (this.time[sample] < span[0] || this.time[sample] >= span[1])) inside[sample] = 0;
if (inside[sample]) amounts[bundleOf[sample]] += weight[sample];
}
return { inside, amounts };
}
decider(bundle) {
const { decider, likely, node } = this.bundles;
if (decider[bundle] === UNKNOWN) decider[bundle] = likely[bundle] ? -2 : this.#decided(node[bundle]);
return decider[bundle];
}
#decided(leaf) {
let node = leaf;
let callers = this.decided[leaf];
if (callers < 0) return -1;
for (; callers > 0; callers -= 1) node = this.tree.parent[node];
return this.tree.frame[node];
}
}
function chosen(list, size) {
const allowed = new Uint8Array(size).fill(list?.length ? 0 : 1);
for (const value of list ?? []) allowed[value] = 1;
return allowed;
}
function survey(model, query) {
const causes = new Float64Array(model.causes);
const ranges = new Float64Array(model.causes * query.ranges);
const passes = passing(model, query);
const { inside, amounts } = model.within(query.span);
const { bundles, bundleOf, weight } = model;
const { path, first, last } = model.range;
for (let run = 0; run < path.length; run += 1) {
const base = path[run] * model.causes;
for (let sample = first[run]; sample < last[run]; sample += 1) {
const bundle = bundleOf[sample];
if (passes[bundle] && (!inside || inside[sample])) ranges[base + bundles.causes[bundle]] += weight[sample];
}
}
let whole = 0;
for (let bundle = 0; bundle < bundles.length; bundle += 1) {
if (bundles.event[bundle] !== query.event) continue;
whole += bundles.weight[bundle];
if (passes[bundle] && query.range < 0) causes[bundles.causes[bundle]] += amounts[bundle];
}
if (query.range >= 0) causes.set(ranges.subarray(query.range * model.causes, (query.range + 1) * model.causes));
return { causes, ranges, whole };
}
function passing(model, { event, dsos, modes, threads, opportunity }) {
const { bundles } = model;
const member = model.nodesOf(opportunity);
const passes = new Uint8Array(bundles.length);
const wanted = [
[dsos, bundles.dsos],
[modes, bundles.modes],
[threads, bundles.threads],
]
.filter(([list]) => list.length)
.map(([list, column]) => [new Set(list), column]);
for (let bundle = 0; bundle < bundles.length; bundle += 1) {
if (bundles.event[bundle] !== event || (member && !member[bundles.node[bundle]])) continue;
if (wanted.every(([values, column]) => values.has(column[bundle]))) passes[bundle] = 1;
}
return passes;
}
class Server {
async start({ packed, layout, facts }) {
this.model = new Model(await gunzip(packed), layout, facts);
const { frameName, frameDso, frameKind } = this.model;
return { frameName, frameDso, frameKind };
}
derive({ query, spare }) {
recycle(spare);
return derive(this.model, query);
}
survey(query) {
return survey(this.model, query);
}
}
function serve() {
const server = new Server();
self.addEventListener("message", async ({ data: { id, method, argument } }) => {
const answer = await server[method](argument);
const owned = method === "derive" ? buffers(answer) : [];
self.postMessage({ id, answer }, owned);
});
}
class Engine {
constructor(script) {
this.waiting = new Map();
this.asked = 0;
this.spare = [];
try {
this.worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
this.worker.addEventListener("message", ({ data: { id, answer } }) => this.#resolve(id, answer));
this.worker.addEventListener("error", (event) => this.#fallBack(event));
} catch {
this.server = new Server();
}
}
start(argument) {
return this.#ask("start", argument);
}
derive(query) {
const spare = this.spare.splice(0);
return this.#ask("derive", { query, spare }, spare);
}
release({ tables, pairs }) {
this.spare.push(...new Set(buffers([tables, pairs])));
}
survey(query) {
return this.#ask("survey", query);
}
async #ask(method, argument, owned = []) {
if (this.server) return this.server[method](argument);
this.asked += 1;
const id = this.asked;
return new Promise((resolve) => {
this.waiting.set(id, { method, argument, resolve });
this.worker.postMessage({ id, method, argument }, owned);
});
}
#resolve(id, answer) {
this.answered = true;
this.waiting.get(id).resolve(answer);
this.waiting.delete(id);
}
async #fallBack(event) {
if (this.answered) return;
event.preventDefault();
this.server = new Server();
for (const [id, { method, argument }] of this.waiting) this.#resolve(id, await this.server[method](argument));
}
}
function buffers(value, list = []) {
if (ArrayBuffer.isView(value)) list.push(value.buffer);
else if (value && typeof value === "object") for (const part of Object.values(value)) buffers(part, list);
return list;
}
const NS_UNITS = [
["s", 1e9],
["ms", 1e6],
["µs", 1e3],
];
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const COUNT = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
function formatNs(value) {
for (const [unit, factor] of NS_UNITS) {
if (Math.abs(value) >= factor) return `${digits(value / factor, 3)} ${unit}`;
}
return `${value.toFixed(0)} ns`;
}
function formatBytes(value) {
let amount = value;
let step = 0;
while (Math.abs(amount) >= 1024 && step < BYTE_UNITS.length - 1) {
amount /= 1024;
step += 1;
}
return `${digits(amount, 4)} ${BYTE_UNITS[step]}`;
}
function formatWeight(value, unit) {
if (unit === "ns") return formatNs(value);
if (unit === "bytes") return formatBytes(value);
return `${COUNT.format(value)} ${unit}`;
}
function formatCount(value) {
return COUNT.format(value);
}
function formatShare(part, whole) {
if (!whole) return "–";
const percent = (100 * part) / whole;
if (part && Math.abs(percent) < 0.05) return "<0.1 %";
return Math.abs(percent) >= 9.95 ? `${percent.toFixed(0)} %` : `${percent.toFixed(1)} %`;
}
function formatRate(bytes, ns) {
if (ns <= 0) return "–";
const rate = bytes / ns;
return `${Math.abs(rate) >= 100 ? COUNT.format(rate) : Number(rate.toPrecision(3))} GB/s`;
}
function digits(value, significant) {
if (Math.abs(value) >= 10 ** (significant - 1)) return COUNT.format(value);
return String(Number(value.toPrecision(significant)));
}
const CHANGE_STEPS = [0.8, 0.5, 0.2, 0];
const LESS = [
["−80 %", "at most a fifth is left"],
["−50 %", "at most half is left"],
["−20 %", "at most four fifths are left"],
["< 20 % less", "more than four fifths are left"],
];
const MORE = [
["+400 %", "five times as much, or more"],
["+100 %", "twice as much, or more"],
["+25 %", "a quarter more, or more than that"],
["< 25 % more", "less than a quarter more"],
];
const SURE = [
"not tested: a test needs two runs on each side",
"not tested: too few samples",
"no: runs on one side differ as much",
"yes",
];
const SIDES = [
["before", "Before", "Widths show the weights before, including all that is gone"],
["after", "After", "Widths show the weights after, including all that is new"],
["both", "Both", "Widths show the sum of both weights"],
];
const CHANGE_SCHEMES = {
change: { label: "change", sure: true },
difference: { label: "difference, tested or not", sure: false },
};
function markOfSide({ before, after }, node) {
if (!after[node]) return -1;
return before[node] ? 0 : 1;
}
function changeFill(scheme) {
const mixed = themed("--mixed");
const [less, more] = ["less", "more"].map((way) =>
CHANGE_STEPS.map((_, step) => themed(`--${way}-${CHANGE_STEPS.length - step}`)),
);
const least = CHANGE_SCHEMES[scheme].sure ? SIGNIFICANT : UNTESTED;
return (table, node) => {
const [before, after] = [table.before[node], table.after[node]];
const grey = before === after || table.sure[node] < least || table.sure[node] === TOO_FEW;
if (grey) return mixed;
const part = Math.abs(after - before) / Math.max(before, after);
return (after < before ? less : more)[CHANGE_STEPS.findIndex((from) => part >= from)];
};
}
function changeLegend(scheme) {
const steps = (way, words) =>
words.map(([text, title], step) => [text, title, `--${way}-${CHANGE_STEPS.length - step}`, 0]);
const rest = CHANGE_SCHEMES[scheme].sure ? "no significant change" : "no change, or too few samples";
return [
["only before", "Only in the recordings before", "--mixed", -1],
...steps("less", LESS),
[rest, "Grey: the difference may be due to chance, has too few samples, or can't be tested", "--mixed", 0],
...steps("more", MORE).reverse(),
["only after", "Only in the recordings after", "--mixed", 1],
];
}
function changeFacts(table, node, unit, page) {
const [before, after] = [table.before[node], table.after[node]];
const each = perUnit(page);
const amount = (weight, whole) => `${formatWeight(weight, unit)}${each} · ${formatShare(weight, whole)}`;
const sign = after > before ? "+" : "−";
const percent = before ? ` (${sign}${formatShare(Math.abs(after - before), before)})` : " (new)";
const frame = table.frameOf(node);
const was = page.formerly?.[frame];
return [
["before", before ? amount(before, table.before[0]) : "absent"],
["after", after ? amount(after, table.after[0]) : "absent"],
["difference", before === after ? "none" : `${sign}${formatWeight(Math.abs(after - before), unit)}${percent}`],
["significant", SURE[table.sure[node]]],
...(was ? [["name before", was]] : []),
];
}
function perUnit({ per }) {
return per ? ` per ${per}` : "";
}
class Sides {
constructor(page, store) {
const box = byId("flame-sides");
Object.assign(this, { page, store, note: byId("flame-hidden") });
this.buttons = SIDES.map(([side, label, title]) => {
const button = makeButton("", label, title, () => store.set({ side }));
button.dataset.side = side;
return button;
});
box.append(...this.buttons);
box.hidden = false;
}
show({ side }, { hidden }, unit) {
for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.side === side));
this.note.hidden = !hidden;
const other = side === "before" ? "after" : "before";
const turn = makeButton("link", `Show the widths ${other}`, "", () => this.store.set({ side: other }));
this.note.replaceChildren(
`Not drawn: ${formatWeight(hidden, unit)}${perUnit(this.page)} in stacks that exist only ${other}. `,
turn,
);
}
}
const BLENDS = [
[98, 1],
[85, 0.75],
[65, 0.5],
[45, 0.25],
[0, 0],
];
const MODULE_COLOURS = 9;
const MODES = ["user code", "kernel", "kernel modules"];
const SCHEMES = {
cause: { facet: "causes", label: "cause" },
module: { facet: "dsos", label: "module" },
mode: { facet: "modes", label: "user or kernel" },
};
function schemesOf(page) {
return page.compared ? { ...CHANGE_SCHEMES, ...SCHEMES } : SCHEMES;
}
function colourStyle(scheme, page, frames, ranks) {
const mixed = themed("--mixed");
const shared = {
ink: themed("--on-cause"),
fadedInk: themed("--soft"),
match: themed("--match"),
matchInk: themed("--on-match"),
ground: themed("--card"),
outline: themed("--ink"),
font: `12px ${getComputedStyle(document.body).fontFamily}`,
nameOf: (frame) => frames.nameOf(frame),
markOf: page.compared ? markOfSide : () => 0,
};
if (CHANGE_SCHEMES[scheme]) return { ...shared, fill: changeFill(scheme) };
if (scheme === "cause") {
const causes = page.causes.map((cause) => {
const pure = themed(`--cause-${cause.slug}`);
return BLENDS.map(([, part]) => blend(mixed, pure, part));
});
const blendOf = Array.from({ length: 101 }, (_, purity) => BLENDS.findIndex(([from]) => purity >= from));
return { ...shared, fill: (table, node) => causes[table.leafOf(node)]?.[blendOf[table.purityOf(node)]] ?? mixed };
}
if (scheme === "module") {
const colours = new Map(ranks.slice(0, MODULE_COLOURS).map((dso, rank) => [dso, themed(`--module-${rank}`)]));
return { ...shared, fill: (table, node) => colours.get(frames.dsoOf(table.frameOf(node))) ?? mixed };
}
const modes = MODES.map((_, mode) => themed(`--mode-${mode}`));
return { ...shared, fill: (table, node) => modes[frames.kindOf(table.frameOf(node))] ?? mixed };
}
function legendOf(scheme, page, facets, selected, ranks) {
const { facet } = SCHEMES[scheme];
const weights = facets[facet];
const present = [...weights.keys()].filter((value) => weights[value] > 0 || selected.includes(value));
present.sort((one, other) => weights[other] - weights[one] || one - other);
return present.map((value) => {
if (scheme === "cause")
return [value, page.causes[value].key, page.causes[value].meaning, `--cause-${page.causes[value].slug}`];
if (scheme === "mode")
return [value, MODES[value], `Samples whose innermost function is ${MODES[value]}`, `--mode-${value}`];
const rank = ranks.indexOf(value);
const colour = rank >= 0 && rank < MODULE_COLOURS ? `--module-${rank}` : "--mixed";
return [value, page.dsos[value] || "no module", "Samples whose innermost function is in this module", colour];
});
}
function ranked(weights) {
return [...weights.keys()].filter((dso) => weights[dso] > 0).sort((one, other) => weights[other] - weights[one]);
}
function blend(from, to, part) {
const channel = (colour, index) => parseInt(colour.slice(1 + 2 * index, 3 + 2 * index), 16);
const mixed = [0, 1, 2].map((index) => Math.round(channel(from, index) * (1 - part) + channel(to, index) * part));
return `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}
function chipOf(label, text, takeBack) {
const chip = makeButton("chip", undefined, `Remove: ${label} ${text}`, takeBack);
chip.append(element("span", "faint", label), element("span", "chip-name", text), element("span", "chip-end", "×"));
return chip;
}
const MOST_CHIPS = 12;
class FilterStrip {
constructor(page, store) {
Object.assign(this, { page, store });
byId("filter-undo").addEventListener("click", () => store.undo());
byId("filter-clear").addEventListener("click", () => store.clear(FILTERS));
document.addEventListener("keydown", (event) => this.#shortcut(event));
store.follow(FILTERS, (state) => this.#show(state));
}
#show(state) {
const { page, store } = this;
const row = byId("filter-chips");
const held = [...row.children].indexOf(document.activeElement);
const inside = byId("filters").contains(document.activeElement);
const chips = [];
const list = (key, label, name) => {
if (state[key].length > MOST_CHIPS) {
chips.push(chipOf(label, `${state[key].length} selected`, () => store.clear([key])));
return;
}
for (const value of state[key]) chips.push(chipOf(label, name(value), () => store.toggle(key, value)));
};
if (state.range >= 0) chips.push(chipOf("range", page.ranges[state.range].name, () => store.clear(["range"])));
if (state.span) chips.push(chipOf("time", this.#spanOf(state.span), () => store.clear(["span"])));
if (state.opportunity >= 0) {
const { title } = page.opportunities[state.opportunity];
chips.push(chipOf("opportunity", title, () => store.clear(["opportunity"])));
}
list("threads", "thread", (thread) => page.threads[thread]);
list("causes", "cause", (cause) => page.causes[cause].key);
list("dsos", "module", (dso) => page.dsos[dso] || "no module");
list("modes", "mode", (mode) => MODES[mode]);
row.replaceChildren(...chips);
const active = FILTERS.some((key) => differs(state, key));
byId("filters").hidden = !active;
document.documentElement.classList.toggle("filtered", active);
if (held >= 0 && chips.length) chips[Math.min(held, chips.length - 1)].focus();
else if (inside && !active) document.querySelector("main").focus({ preventScroll: true });
}
#spanOf(span) {
const [from, to] = span.map((end) => end * 1000 + (this.page.instances?.samplesStart ?? 0));
return `${formatNs(to - from)} from ${formatNs(from)}`;
}
#shortcut(event) {
if (event.target.matches?.("input, textarea, select")) return;
if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z") return;
event.shiftKey ? this.store.redo() : this.store.undo();
event.preventDefault();
}
}
function startEvents(store) {
const tabs = [...document.querySelectorAll("#events [role=tab]")];
const choose = (chosen) => store.set({ event: chosen, zoom: [], view: null, upper: [] });
const show = ({ event: chosen }) => {
for (const tab of tabs) {
tab.setAttribute("aria-selected", String(Number(tab.dataset.event) === chosen));
tab.tabIndex = Number(tab.dataset.event) === chosen ? 0 : -1;
}
for (const block of document.querySelectorAll("[data-of-event]")) {
block.hidden = Number(block.dataset.ofEvent) !== chosen;
}
};
tabs.forEach((tab, index) => {
tab.addEventListener("click", () => choose(Number(tab.dataset.event)));
tab.addEventListener("keydown", (event) => {
const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
if (!step) return;
const next = tabs[(index + step + tabs.length) % tabs.length];
next.focus();
choose(Number(next.dataset.event));
});
});
store.follow(["event"], show);
}
function startCauses(store) {
const marked = [...document.querySelectorAll("[data-cause], [data-filter]")];
const causeOf = (node) => Number(node.dataset.cause ?? node.dataset.filter);
document.addEventListener("click", (event) => {
const node = event.target.closest?.("[data-cause], [data-filter]");
if (node) store.toggle("causes", causeOf(node));
});
const show = ({ causes }) => {
for (const node of marked) {
const chosen = causes.includes(causeOf(node));
node.classList.toggle("off", causes.length > 0 && !chosen);
if (node.dataset.filter) node.setAttribute("aria-pressed", String(chosen));
}
};
store.follow(["causes"], show);
}
function startLines(store) {
const lines = [...document.querySelectorAll("button[data-find]")];
const show = ({ search }) => {
for (const line of lines) line.setAttribute("aria-pressed", String(line.dataset.find === search));
};
for (const line of lines) {
line.addEventListener("click", () => {
const search = store.state.search === line.dataset.find ? "" : line.dataset.find;
store.set({ search });
if (search) byId("flame")?.scrollIntoView();
});
}
store.follow(["search"], show);
}
function barOf(parts, height, label) {
const bar = svgElement("svg", { class: "bar", role: "img", "aria-label": label, width: "100%", height });
let at = 0;
for (const { share, className, cause, title, off } of parts) {
const [x, width] = [at, share].map((part) => `${(100 * part).toFixed(3)}%`);
const classes = `seg ${className}${off ? " off" : ""}`;
bar.append(
svgElement("rect", { class: classes, x, y: 0, width, height, "data-cause": cause, "data-title": title }),
);
at += share;
}
return bar;
}
function spreadOf([least, median, most], format) {
const label = "Spread of the calls, from 0 to the slowest";
const mark = svgElement("svg", { class: "spread-mark", role: "img", "aria-label": label, width: "100%", height: 10 });
const part = (value) => `${((96 * value) / Math.max(most, 1)).toFixed(2)}%`;
const add = (className, from, width, y, height) => {
mark.append(svgElement("rect", { class: className, x: part(from), width, y, height }));
};
add("spread-track", 0, "96%", 4.5, 1);
add("spread-line", least, part(most - least), 4, 2);
add("spread-end", least, 1.5, 2, 6);
add("spread-median", median, 3, 0, 10);
add("spread-end", most, 1.5, 2, 6);
const figures = element("span", "spread-figures");
figures.append(`${format(least)} · `, element("b", "", format(median)), ` · ${format(most)}`);
return [mark, figures];
}
const GIB = 2 ** 30;
const SMALLEST_PART = 0.005;
const SMALLEST_NAMED = 0.01;
const NAMED_PARTS = 3;
class ActivityView {
constructor(page, overrides, plots) {
Object.assign(this, { page, overrides, plots });
}
show(state, instances) {
this.whole = lengthOf(state, instances) ?? this.page.instances.run;
for (const head of document.querySelectorAll("[data-share-head]")) {
this.overrides.set(head, state.range >= 0 ? "Of range" : state.span ? "Of span" : "Of run");
}
this.#rows("call", instances, instances.rows("call", state), (sum, cells) =>
this.#call(state, instances, sum, cells),
);
this.#rows("copy", instances, instances.rows("copy", state), (sum, cells, group) => this.#copy(sum, cells, group));
this.#rows("move", instances, instances.rows("move", state, { threads: false }), (sum, cells) =>
this.#move(instances, sum, cells),
);
this.plots.filter("transfers", instances, state);
if (state.range >= 0 && !state.span) this.#tiles(this.page.ranges[state.range].tiles);
}
#tiles(tiles) {
document.querySelectorAll("#uvm .tile").forEach((place, at) => {
if (!tiles[at]) return;
const [value, label, warn] = tiles[at];
this.overrides.set(place.querySelector("b"), value);
this.overrides.set(place.querySelector("span"), label);
this.overrides.attribute(place, "class", warn ? "tile warn" : "tile");
});
}
#rows(kind, instances, rows, fill) {
const sums = instances.sums(kind, rows);
for (const line of document.querySelectorAll(`tr[data-${kind}]`)) {
const group = Number(line.dataset[kind]);
const sum = sums.get(group);
const cells = Object.fromEntries(
[...line.querySelectorAll("[data-cell]")].map((cell) => [cell.dataset.cell, cell]),
);
this.overrides.attribute(line, "class", sum ? null : "empty");
if (sum) fill(sum, cells, group);
else for (const cell of Object.values(cells)) this.overrides.set(cell, cell === cells.count ? "0" : "");
}
}
#put(cells, texts) {
for (const [name, text] of Object.entries(texts))
this.overrides.set(cells[name], text ?? element("span", "faint", "–"));
}
#call(state, instances, sum, cells) {
this.#put(cells, {
count: formatCount(sum.count),
bytes: sum.size ? formatBytes(sum.size) : null,
total: formatNs(sum.busy),
share: formatShare(sum.busy, this.whole),
median: formatNs(instances.spread("call", sum.rows, "busy")[1]),
first: formatNs(instances.call.busy[sum.rows[0]] / instances.call.count[sum.rows[0]]),
rate: sum.size ? formatNs((sum.busy / sum.size) * GIB) : null,
});
if (cells.split)
this.overrides.set(cells.split, ...this.#split(instances.timesOf(sum.rows), sum.busy, state.causes));
}
#split(times, busy, chosen) {
const sampled = times.reduce((all, [, ns]) => all + ns, 0);
if (!sampled) return [element("span", "faint", "no samples of its threads")];
const whole = Math.max(busy, sampled);
const { causes } = this.page;
const off = (cause) => chosen.length > 0 && !chosen.includes(cause);
const large = times.filter(([, ns]) => ns >= SMALLEST_PART * whole);
const parts = large.map(([cause, ns]) => ({
share: ns / whole,
className: `c-${causes[cause].slug}`,
cause,
off: off(cause),
ns,
label: causes[cause].key,
title: `${causes[cause].key} · ${formatNs(ns)} · ${formatShare(ns, whole)}`,
}));
const others = sampled - large.reduce((all, [, ns]) => all + ns, 0);
const rest = (label, ns) => parts.push({ share: ns / whole, className: "rest", off: chosen.length > 0, ns, label });
if (others) rest("others", others);
if (busy > sampled)
rest(this.page.events.some((event) => event.spans) ? "unexplained" : "not on a CPU", busy - sampled);
const named = parts.filter((part) => part.share >= SMALLEST_NAMED && !part.off).slice(0, NAMED_PARTS);
const line = element("div", "top-causes");
for (const { cause, className, label, ns } of named) {
const figure = element("b", "", formatNs(ns));
line.append(swatchEntry("", cause === undefined ? "" : className, `${label} `, figure), " ");
}
return [barOf(parts, 14, "Where the time went"), line];
}
#copy(sum, cells, group) {
const limit = this.page.links[group];
this.#put(cells, {
count: formatCount(sum.count),
bytes: formatBytes(sum.size),
rate: formatRate(sum.size, sum.busy),
busy: formatNs(sum.busy),
host: formatNs(sum.extra),
});
if (!limit || !sum.busy) return;
const share = sum.size / sum.busy / limit;
const meter = element("div", "meter");
const className = cells.link.closest("tr").querySelector(".swatch").classList[1];
meter.append(
barOf([{ share: Math.min(share, 1), className }], 16, "Share of the practical rate"),
element("span", "num", formatShare(share, 1)),
);
this.overrides.set(cells.link, meter);
}
#move(instances, sum, cells) {
const [, median, most] = instances.spread("move", sum.rows, "size");
this.#put(cells, {
count: formatCount(sum.count),
bytes: formatBytes(sum.size),
median: formatBytes(Math.round(median)),
most: formatBytes(Math.round(most)),
rate: formatRate(sum.size, sum.busy),
busy: formatNs(sum.busy),
inside: formatShare(sum.extra, sum.count),
});
}
}
function lengthOf(state, instances) {
const span = instances.spanOf(state);
if (state.range < 0) return span && span[1] - span[0];
const [from, to] = span ?? [-Infinity, Infinity];
return instances
.intervalsOf(state.range)
.reduce((sum, [start, end]) => sum + Math.max(Math.min(end, to) - Math.max(start, from), 0), 0);
}
const LABELLED = 0.05;
const SHORT = 0.1;
const MEDIUM = 0.3;
class CausesView {
constructor(page, overrides) {
Object.assign(this, { page, overrides });
}
show(state, { causes, whole }) {
const block = document.querySelector(`.causes[data-of-event="${state.event}"]`);
if (!block?.querySelector(".bar")) return;
const { unit, name } = this.page.events[state.event];
const total = causes.reduce((sum, weight) => sum + weight, 0);
this.#sentences(block, state, causes, total, whole, unit, name);
if (total === whole) return;
this.#bar(block, causes, total, unit);
for (const level of block.querySelectorAll("details.level")) {
let sum = 0;
for (const leaf of level.querySelectorAll("li[data-leaf]")) {
const weight = causes[leaf.dataset.leaf];
sum += weight;
this.#figures(leaf.querySelector(".row"), weight, total, unit);
this.overrides.attribute(leaf, "hidden", weight ? null : "");
const work = leaf.querySelector(".work");
if (work) this.overrides.attribute(work, "hidden", "");
}
this.#figures(level.querySelector("summary"), sum, total, unit);
this.overrides.attribute(level, "hidden", sum ? null : "");
}
}
#sentences(block, { causes: chosen }, causes, total, whole, unit, name) {
const sentences = [];
if (total < whole)
sentences.push(`This part: ${formatWeight(total, unit)}, ${formatShare(total, whole)} of ${name}.`);
if (chosen.length) {
const weight = chosen.reduce((sum, cause) => sum + causes[cause], 0);
const keys = chosen.map((cause) => this.page.causes[cause].key).join(", ");
sentences.push(
`Selected, ${keys}: ${formatWeight(weight, unit)}, ${formatShare(weight, total)} of ${total < whole ? "this part" : name}.`,
);
}
const place = block.querySelector(".part");
this.overrides.set(place, sentences.join(" "));
this.overrides.attribute(place, "hidden", sentences.length ? null : "");
}
#figures(row, weight, total, unit) {
this.overrides.set(row.querySelector(".weight"), formatWeight(weight, unit));
this.overrides.set(row.querySelector(".share"), formatShare(weight, total));
}
#bar(block, causes, total, unit) {
const { overrides } = this;
const percent = (weight) => `${total ? ((100 * weight) / total).toFixed(4) : 0}%`;
let at = 0;
let level = { start: 0, weight: 0 };
for (const part of block.querySelector(".bar").children) {
if (part.dataset.cause !== undefined) {
const cause = Number(part.dataset.cause);
const weight = causes[cause];
overrides.attribute(part, "x", percent(at));
overrides.attribute(part, "width", percent(weight));
overrides.attribute(
part,
"data-title",
`${this.page.causes[cause].key} · ${formatShare(weight, total)} · ${formatWeight(weight, unit)}`,
);
at += weight;
level.weight += weight;
continue;
}
const share = total ? level.weight / total : 0;
overrides.attribute(part, "x", percent(level.start));
overrides.attribute(part, "width", percent(level.weight));
overrides.attribute(
part,
"class",
`label${share <= LABELLED ? " none" : share < SHORT ? " short" : share < MEDIUM ? " medium" : ""}`,
);
overrides.set(part.querySelector(".strong"), formatShare(level.weight, total));
level = { start: at, weight: 0 };
}
}
fit() {
for (const bar of document.querySelectorAll(".causes .bar:has(.label)")) fitLabels(bar);
}
}
class Overrides {
constructor() {
this.content = new Map();
this.attributes = new Map();
}
set(place, ...content) {
if (!place) return;
if (!this.content.has(place)) this.content.set(place, [...place.childNodes]);
place.replaceChildren(...content);
}
attribute(place, name, value) {
const before = this.attributes.get(place) ?? new Map();
this.attributes.set(place, before);
if (!before.has(name)) before.set(name, place.getAttribute(name));
setOrRemove(place, name, value);
}
restore() {
for (const [place, content] of this.content) place.replaceChildren(...content);
for (const [place, before] of this.attributes) {
for (const [name, value] of before) setOrRemove(place, name, value);
}
this.content.clear();
this.attributes.clear();
}
}
function setOrRemove(place, name, value) {
if (value === null) place.removeAttribute(name);
else place.setAttribute(name, value);
}
const KINDS = ["range", "call", "copy", "move"];
class Instances {
static async load({ layout, samplesStart, scoped }) {
return new Instances(unpackColumns(await gunzip(embedded("instances")), layout), samplesStart, scoped);
}
constructor(columns, samplesStart, scoped) {
Object.assign(this, { samplesStart, scoped });
for (const kind of KINDS) {
const names = ["group", "length_ns", "before_ns", "thread", "pid", "size_bytes", "count", "busy_ns", "extra"];
this[kind] = Object.fromEntries(names.map((name) => [name.replace(/_.*/, ""), columns[`${kind}_${name}`]]));
this[kind].start = summed(columns[`${kind}_start_ns`], Float64Array);
}
this.time = { call: columns.time_call, leaf: columns.time_leaf, ns: columns.time_ns };
this.scope = {
range: columns.scope,
start: columns.scope_start_ns,
length: columns.scope_length_ns,
pid: columns.scope_pid,
};
}
spanOf(state) {
return state.span?.map((end) => end * 1000 + this.samplesStart);
}
rows(kind, state, { threads = true } = {}) {
const { start, before, thread, pid } = this[kind];
const span = this.spanOf(state);
const scopes = state.range >= 0 && this.scoped ? this.#scopesOf(state.range) : null;
const wanted = threads && state.threads.length ? new Set(state.threads) : null;
const passing = [];
for (let row = 0; row < start.length; row += 1) {
if (span && (start[row] < span[0] || start[row] >= span[1])) continue;
if (wanted && !wanted.has(thread[row])) continue;
if (scopes && !inside(scopes, start[row] - before[row], pid[row])) continue;
passing.push(row);
}
return passing;
}
test(state) {
const span = this.spanOf(state);
const scopes =
state.range >= 0 && this.scoped ? this.#scopesOf(state.range).map(([start, end]) => [start, end, -1]) : null;
return (time) => (!span || (time >= span[0] && time < span[1])) && (!scopes || inside(scopes, time, -1));
}
#scopesOf(range) {
const { range: ranges, start, length, pid } = this.scope;
const scopes = [];
for (let at = 0; at < ranges.length; at += 1)
if (ranges[at] === range) scopes.push([start[at], start[at] + length[at], pid[at]]);
return scopes.sort((one, other) => one[0] - other[0]);
}
intervalsOf(range) {
const { group, start, length } = this.range;
const intervals = [];
for (let row = 0; row < group.length; row += 1)
if (group[row] === range) intervals.push([start[row], start[row] + length[row]]);
return intervals;
}
sums(kind, rows) {
const { group, size, count, busy, extra } = this[kind];
const sums = new Map();
for (const row of rows) {
const sum = sums.get(group[row]) ?? { rows: [], count: 0, size: 0, busy: 0, extra: 0 };
sums.set(group[row], sum);
sum.rows.push(row);
sum.count += count[row];
sum.size += size[row];
sum.busy += busy[row];
sum.extra += extra[row];
}
return sums;
}
spread(kind, rows, column) {
const { count } = this[kind];
return spreadOfMany(rows.map((row) => [this[kind][column][row] / count[row], count[row]]));
}
timesOf(rows) {
const wanted = new Set(rows);
const sums = new Map();
const { call, leaf, ns } = this.time;
for (let at = 0; at < call.length; at += 1) {
if (wanted.has(call[at])) sums.set(leaf[at], (sums.get(leaf[at]) ?? 0) + ns[at]);
}
return [...sums].sort((one, other) => other[1] - one[1]);
}
}
function spreadOfMany(pairs) {
const values = [...pairs].sort((one, other) => one[0] - other[0]);
let left = (values.reduce((sum, [, many]) => sum + many, 0) - 1) / 2;
for (const [value, many] of values) {
left -= many;
if (left < 0) return [values[0][0], value, values.at(-1)[0]];
}
return [0, 0, 0];
}
function inside(scopes, time, pid) {
for (const [start, end, owner] of scopes) {
if (start > time) return false;
if (time < end && (owner < 0 || owner === pid)) return true;
}
return false;
}
const NAMED = 3;
const NAMED_FROM = 0.02;
class RangesView {
constructor(page, overrides) {
Object.assign(this, { page, overrides });
}
show(state, rows, { sampled }) {
const { unit } = this.page.events[state.event] ?? {};
for (const line of document.querySelectorAll(`[data-of-event="${state.event}"] table.ranges tr[data-range]`)) {
const row = rows[line.dataset.range];
if (row.inSpan) this.#calls(line, row);
if (sampled) this.#causes(line, row, state, unit);
}
}
#calls(line, { count, wall, spread }) {
const set = (name, ...content) => this.overrides.set(line.querySelector(`td.${name}`), ...content);
const faint = (text) => element("span", "faint", text);
set("count", formatCount(count));
set("wall", count ? formatNs(wall / count) : faint("–"));
if (count > 1) set("spread", ...spreadOf(spread, formatNs));
else set("spread", faint(count ? "one call" : "no call"));
}
#causes(line, { leaves, total, count }, { causes: chosen }, unit) {
const set = (name, ...content) => this.overrides.set(line.querySelector(`td.${name}`), ...content);
const isChosen = ([cause]) => !chosen.length || chosen.includes(cause);
const shown = leaves.filter(([, weight]) => weight);
const counted = shown.filter(isChosen);
const sum = counted.reduce((all, [, weight]) => all + weight, 0);
set("sampled", count && sum ? formatWeight(sum / count, unit) : "–");
const parts = shown.map(([cause, weight]) => {
const { key, slug } = this.page.causes[cause];
const title = `${key} · ${formatShare(weight, total)} · ${formatWeight(weight, unit)}`;
return { share: weight / total, className: `c-${slug}`, cause, off: !isChosen([cause]), title };
});
set("bars", ...(total ? [barOf(parts, 16, "Causes")] : []));
const named = counted.slice(0, NAMED).filter(([, weight]) => chosen.length || weight >= NAMED_FROM * total);
const entries = named.map(([cause, weight]) => {
const { key, slug } = this.page.causes[cause];
return swatchEntry("", `c-${slug}`, `${key} `, element("b", "", formatShare(weight, total)));
});
set("top-causes", ...entries);
}
matrix(state, rows, measure) {
const { unit } = this.page.events[state.event] ?? {};
for (const table of document.querySelectorAll(`[data-of-event="${state.event}"] table.matrix`)) {
for (const place of table.querySelectorAll("[data-leaf]")) {
const cause = Number(place.dataset.leaf);
this.overrides.attribute(place, "hidden", state.causes.length && !state.causes.includes(cause) ? "" : null);
if (place.tagName !== "TD") continue;
const row = rows[place.closest("tr").dataset.range];
const weight = row.leaves.find(([one]) => one === cause)?.[1] ?? 0;
this.overrides.set(place, weight ? amountOf(measure, weight, row, unit) : "");
}
}
}
}
function amountOf(measure, weight, row, unit) {
if (measure === "share") return formatShare(weight, row.total);
return formatWeight(measure === "mean" ? weight / row.count : weight, unit);
}
function rangeRows(page, state, survey, instances) {
const size = page.causes.length;
const span = instances?.spanOf(state);
const calls = span && callsIn(instances, span);
return page.ranges.map((range, index) => {
const filtered = survey && page.timed ? survey.ranges.subarray(index * size) : null;
const whole = range.leaves[state.event] ?? [];
const leaves = whole.map(([cause, weight]) => [cause, filtered ? filtered[cause] : weight]);
leaves.sort((one, other) => other[1] - one[1]);
const total = leaves.reduce((sum, [, weight]) => sum + weight, 0);
const { count, wall, spread } = calls ? (calls.get(index) ?? { count: 0, wall: 0 }) : range;
return { inSpan: Boolean(span), leaves, total, count, wall, spread };
});
}
function callsIn(instances, [from, to]) {
const { group, start, length, count, busy } = instances.range;
const parts = new Map();
for (let row = 0; row < group.length; row += 1) {
const inside = Math.min(start[row] + length[row], to) - Math.max(start[row], from);
if (inside <= 0) continue;
const share = inside / Math.max(length[row], 1);
const many = count[row] > 1 ? Math.max(Math.round(count[row] * share), 1) : 1;
const wall = count[row] > 1 ? (busy[row] * share) / many : inside;
if (!parts.has(group[row])) parts.set(group[row], []);
parts.get(group[row]).push([wall, many]);
}
const summary = (pairs) => ({
count: pairs.reduce((sum, [, many]) => sum + many, 0),
wall: pairs.reduce((sum, [wall, many]) => sum + wall * many, 0),
spread: spreadOfMany(pairs),
});
return new Map([...parts].map(([range, pairs]) => [range, summary(pairs)]));
}
const OF_INSTANCES = ["range", "span", "threads", "causes"];
class FilteredViews {
constructor(page, store, { flame, chart, plots }) {
Object.assign(this, { page, store, flame, chart });
this.overrides = new Overrides();
this.causes = new CausesView(page, this.overrides);
this.ranges = new RangesView(page, this.overrides);
this.activity = new ActivityView(page, this.overrides, plots);
this.limits = [...document.querySelectorAll("[data-limit]")];
document.addEventListener("click", (event) => {
const name = event.target.closest?.("[data-range-filter]");
if (!name) return;
const range = Number(name.dataset.rangeFilter);
store.set({ range: store.state.range === range ? -1 : range });
});
store.follow(["event", ...FILTERS], () => this.update());
}
instances() {
if (!this.page.instances) return Promise.resolve(null);
this.loading ??= Instances.load(this.page.instances);
return this.loading;
}
get active() {
return FILTERS.some((key) => differs(this.store.state, key));
}
async update() {
const { state } = this.store;
const { active } = this;
this.asked = state;
this.#limits(state);
document.documentElement.dataset.linked = "busy";
const [weights, instances] = active ? await Promise.all([this.#survey(state), this.instances()]) : [null, null];
if (this.asked !== state) return;
this.overrides.restore();
this.rows = rangeRows(this.page, state, weights, instances);
if (weights) this.causes.show(state, weights);
this.causes.fit();
if (active) this.ranges.show(state, this.rows, { sampled: Boolean(weights) });
if (instances && OF_INSTANCES.some((key) => differs(state, key))) this.activity.show(state, instances);
else this.activity.plots.filter("transfers", null);
this.#markChosen(state);
this.chart?.show(state, this.rows);
this.measured();
document.documentElement.dataset.linked = "ready";
}
measured() {
const measure = this.chart?.measure ?? "mean";
if (!this.rows || (!this.active && measure === "mean" && !this.remeasured)) return;
this.remeasured = true;
this.ranges.matrix(this.store.state, this.rows, measure);
}
#markChosen({ range }) {
const { ranges } = this.page;
const outside = ranges.findIndex((one, at) => at > range && one.depth <= ranges[range]?.depth);
const end = outside < 0 ? ranges.length : outside;
for (const line of document.querySelectorAll("tr[data-range]")) {
const number = Number(line.dataset.range);
line.classList.toggle("chosen", number === range);
line.classList.toggle("away", range >= 0 && (number < range || number >= end));
line.querySelector("[data-range-filter]").setAttribute("aria-pressed", String(number === range));
}
}
async #survey(state) {
if (!this.flame) return null;
await this.flame.ready;
const query = Object.fromEntries(["event", ...FILTERS].map((key) => [key, state[key]]));
return this.flame.engine.survey({ ...query, ranges: this.page.ranges.length });
}
#limits(state) {
for (const line of this.limits) line.hidden = !line.dataset.limit.split(" ").some((key) => differs(state, key));
}
}
const PNG_RATIO = 2;
const LARGEST = 16_000;
const CAPTION_PX = 28;
const SEAM_PX = 8;
class SvgContext {
constructor(width, height) {
this.svg = svgElement("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
this.globalAlpha = 1;
this.top = 0;
this.ruler = document.createElement("canvas").getContext("2d");
}
#add(tag, attributes, text) {
const rounded = (value) => (typeof value === "number" ? +value.toFixed(2) : value);
const node = svgElement(
tag,
Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name, rounded(value)])),
);
if (this.globalAlpha < 1) node.setAttribute("opacity", this.globalAlpha);
if (text !== undefined) node.textContent = text;
this.svg.append(node);
}
translate(_, y) {
this.top += y;
}
fillRect(x, y, width, height) {
this.#add("rect", { x, y: y + this.top, width, height, fill: this.fillStyle });
}
strokeRect(x, y, width, height) {
const line = { fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth };
this.#add("rect", { x, y: y + this.top, width, height, ...line });
}
fillText(text, x, y) {
const font = { "font-size": "12px", "font-family": this.font.replace(/^\S+ /, "") };
this.#add("text", { x, y: y + this.top + 4, fill: this.fillStyle, ...font }, text);
}
measureText(text) {
this.ruler.font = this.font;
return this.ruler.measureText(text);
}
}
function asSvg(panel) {
const picture = layOut(panel);
const context = new SvgContext(picture.width, picture.height);
paint(context, panel, picture);
return new XMLSerializer().serializeToString(context.svg);
}
function asPng(panel) {
const picture = layOut(panel);
const canvas = document.createElement("canvas");
const ratio = Math.min(PNG_RATIO, LARGEST / picture.height);
canvas.width = Math.round(picture.width * ratio);
canvas.height = Math.round(picture.height * ratio);
const context = canvas.getContext("2d");
context.setTransform(ratio, 0, 0, ratio, 0, 0);
paint(context, panel, picture);
return new Promise((resolve) => {
canvas.toBlob(resolve, "image/png");
});
}
function layOut({ graph, upper, tables }) {
let top = CAPTION_PX;
const parts = (tables.callers ? [upper, graph] : [graph]).map((one) => {
const part = { graph: one, top, box: whole(one) };
top += part.box.height + SEAM_PX;
return part;
});
return { width: graph.width, height: top, parts };
}
function paint(context, panel, { width, height, parts }) {
const { style } = panel.painter;
context.fillStyle = style.ground;
context.fillRect(0, 0, width, height);
context.font = style.font;
context.textBaseline = "middle";
context.fillStyle = style.outline;
const words = [
panel.page.title,
...parts.at(-1).graph.view.canvas.getAttribute("aria-label").split(": "),
...panel.controls.restrictions(),
];
context.fillText(cut(context, words.join(" · "), width - 10), 5, CAPTION_PX / 2);
let at = 0;
for (const { graph, top, box } of parts) {
context.translate(0, top - at);
at = top;
panel.painter.draw(context, graph.table, graph.span, box, graph.table.depthOf(graph.zoomed));
}
}
function cut(context, text, width) {
if (context.measureText(text).width <= width) return text;
return `${text.slice(0, Math.floor((text.length * width) / context.measureText(text).width) - 1)}…`;
}
function download(content, type, name) {
const link = document.createElement("a");
link.href = URL.createObjectURL(new Blob([content], { type }));
link.download = name;
link.click();
setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
async function copyText(text) {
try {
await navigator.clipboard.writeText(text);
} catch {
const area = document.createElement("textarea");
area.value = text;
document.body.append(area);
area.select();
document.execCommand("copy");
area.remove();
}
}
function whole(graph) {
return { width: graph.width, height: graph.content, content: graph.content, scroll: 0, flame: graph.flame };
}
const ACTIONS = [
["f", "Focus", "Show only stacks through this function, starting at it"],
["b", "Callers and callees", "Show all callers above and all callees below"],
["h", "Hide", "Remove this function from all stacks; its callees move to its callers"],
["c", "Collapse", "Merge all callees into this function"],
["m", "Collapse module", "Merge neighbouring functions of this module into one"],
["x", "Drop", "Remove all stacks through this function"],
["y", "Copy name", "Copy the function's name"],
["Y", "Copy stack", "Copy the call path, innermost function first"],
];
function runAction(panel, key) {
const graph = panel.acting ?? panel.graph;
const node = graph.selected;
const frame = node < 0 ? -1 : graph.table.frameOf(node);
if (frame < 0) return;
const { frames, state, store } = panel;
if (key === "y") copy(panel, frames.nameOf(frame), "name");
if (key === "Y") copy(panel, stackOf(panel, graph, node), "stack");
if (!frames.isFunction(frame)) return;
const home = { zoom: [], view: null, upper: [] };
if (key === "f") store.set({ focus: frame, sandwich: -1, ...home });
if (key === "b") store.set({ sandwich: frame, inverted: false, ...home });
if (key === "h") store.set({ hide: [...state.hide, frame], view: null });
if (key === "c") store.set({ fold: [...state.fold, frame], view: null });
if (key === "m") store.set({ modules: [...state.modules, frames.dsoOf(frame)], view: null });
if (key === "x") store.set({ drop: [...state.drop, frame], view: null });
}
function stackOf(panel, graph, node) {
const { frames, page, state } = panel;
const { table } = graph;
const chain = table
.path(node)
.map((step) => table.frameOf(step))
.filter((frame) => frame >= 0);
if (!state.inverted && graph === panel.graph) chain.reverse();
const line = (frame) =>
frames.isFunction(frame) ? `${frames.nameOf(frame)} (${page.dsos[frames.dsoOf(frame)]})` : frames.nameOf(frame);
return chain.map(line).join("\n");
}
async function copy(panel, text, what) {
await copyText(text);
byId("flame-status").textContent = `Copied the ${what}.`;
clearTimeout(panel.statusTimer);
panel.statusTimer = setTimeout(() => {
byId("flame-status").textContent = "";
}, 4000);
}
async function saveView(panel, kind) {
byId("flame-save").open = false;
const name = `${panel.page.title}-flamegraph`;
if (kind === "svg") download(asSvg(panel), "image/svg+xml", `${name}.svg`);
if (kind === "png") download(await asPng(panel), "image/png", `${name}.png`);
if (kind === "print") window.print();
if (kind === "link") await copy(panel, location.href, "link");
}
function printView(panel, begins) {
byId("flame-scroller").classList.toggle("whole", begins);
panel.graph.resize();
}
const MOST_THREADS = 200;
class Controls {
constructor(panel, store) {
Object.assign(this, { panel, store, page: panel.page });
this.#select(
"flame-order",
[["weight", "heaviest first"], ...(this.page.timed ? [["time", "in order of time"]] : []), ["leaf", "leaf up"]],
(value) => ({ order: value === "time" ? "time" : "weight", inverted: value === "leaf", zoom: [], view: null }),
);
this.#select(
"flame-colour",
Object.entries(schemesOf(this.page)).map(([key, { label }]) => [key, label]),
(value) => ({ colour: value }),
);
this.#select(
"flame-range",
[
[-1, "whole recording"],
...this.page.ranges.map(({ name, depth }, index) => [index, `${"\u00a0\u00a0".repeat(depth)}${name}`]),
],
(value) => ({ range: Number(value) }),
);
const sampled = this.page.flame.facts.threads;
const threads = this.page.threads.map((name, index) => [index, name]).slice(0, Math.min(sampled, MOST_THREADS));
this.#select("flame-threads", [["all", "merged"], ["split", "split"], ...threads], (value) => ({
split: value === "split",
threads: /^\d/.test(value) ? [Number(value)] : [],
zoom: [],
view: null,
}));
byId("flame-range").parentElement.hidden = !this.page.timed || !this.page.ranges.length;
byId("flame-threads").parentElement.hidden = sampled < 2 || Boolean(this.page.compared);
byId("flame-shape").addEventListener("click", () => store.set({ flame: !store.state.flame }));
byId("flame-undo").addEventListener("click", () => store.undo());
byId("flame-redo").addEventListener("click", () => store.redo());
byId("flame-reset").addEventListener("click", () => store.set({ zoom: [], view: null, upper: [] }));
byId("flame-help-open").addEventListener("click", () => this.help());
byId("flame-help-close").addEventListener("click", () => byId("flame-help").close());
}
#select(id, options, patch) {
const select = byId(id);
for (const [value, label] of options) {
const option = element("option", "", label);
option.value = value;
select.append(option);
}
select.addEventListener("change", () => this.store.set(patch(select.value)));
}
help() {
byId("flame-help").showModal();
}
show(state, answer) {
byId("flame-order").value = state.inverted ? "leaf" : state.order;
byId("flame-colour").value = state.colour;
byId("flame-range").value = state.range;
byId("flame-threads").value = state.split ? "split" : state.threads.length === 1 ? state.threads[0] : "all";
byId("flame-shape").setAttribute("aria-pressed", String(state.flame));
byId("flame-undo").disabled = !this.store.past.length;
byId("flame-redo").disabled = !this.store.future.length;
byId("flame-reset").disabled = !state.zoom.length && !state.view && !state.upper.length;
const chosen = JSON.stringify([state.colour, ...[...FILTERS, ...CHANGES].map((key) => state[key])]);
if (answer === this.answer && chosen === this.chosen) return;
Object.assign(this, { answer, chosen });
this.#legend(state, answer);
this.#chips(state);
}
#legend(state, answer) {
const legend = byId("flame-legend");
if (CHANGE_SCHEMES[state.colour]) {
legend.setAttribute("aria-label", "Colours by change");
legend.replaceChildren(...changeLegend(state.colour).map(changeEntry));
return;
}
const { facet, label } = SCHEMES[state.colour];
const held = legend.contains(document.activeElement) ? document.activeElement.dataset.value : null;
legend.setAttribute("aria-label", `Colours by ${label}: press one to filter by it`);
const whole = answer.facets[facet].reduce((sum, weight) => sum + weight, 0);
const entries = legendOf(state.colour, this.page, answer.facets, state[facet], this.panel.ranks);
const buttons = entries.map(([value, text, title, colour]) => {
const button = makeButton("legend-entry", undefined, title, () => this.store.toggle(facet, value));
button.dataset.value = value;
button.setAttribute("aria-pressed", String(state[facet].includes(value)));
const swatch = element("span", "swatch");
swatch.style.background = `var(${colour})`;
const share = formatShare(answer.facets[facet][value], whole);
button.append(swatch, element("span", "legend-name", text), element("span", "faint", share));
return button;
});
legend.replaceChildren(...buttons);
if (held !== null) legend.querySelector(`[data-value="${held}"]`)?.focus();
}
#chips(state) {
const { page } = this;
const { frames } = this.panel;
const chips = [];
const add = (label, text, patch) => chips.push(chipOf(label, text, () => this.store.set(patch)));
const list = (key, label, name) => {
for (const value of state[key]) add(label, name(value), { [key]: state[key].filter((other) => other !== value) });
};
const home = { zoom: [], view: null };
const nameOf = (frame) => frames.nameOf(frame);
if (state.sandwich >= 0) {
add("callers and callees of", nameOf(state.sandwich), { sandwich: -1, ...home, upper: [] });
}
if (state.focus >= 0) add("focus", nameOf(state.focus), { focus: -1, ...home });
list("hide", "hidden", nameOf);
list("fold", "collapsed", nameOf);
list("modules", "collapsed", (dso) => page.dsos[dso] || "no module");
list("drop", "dropped", nameOf);
if (chips.length > 1) chips.push(makeButton("quiet chip", "Clear all", "", () => this.store.clear(CHANGES)));
const row = byId("flame-chips");
row.replaceChildren(...chips);
row.hidden = !chips.length;
}
restrictions() {
return [...document.querySelectorAll("#filter-chips .chip, #flame-chips .chip:not(.quiet)")].map((chip) =>
[...chip.children]
.slice(0, 2)
.map((part) => part.textContent)
.join(" "),
);
}
path(table, zoomed) {
if (this.pathIn === table && this.pathTo === zoomed) return;
Object.assign(this, { pathIn: table, pathTo: zoomed });
const { frames } = this.panel;
const steps = [];
for (const node of table.path(zoomed)) {
const frame = table.frameOf(node);
const last = steps.at(-1);
if (last && frames.isUnresolved(frame) && last.frame === frame)
Object.assign(last, { node, count: last.count + 1 });
else steps.push({ node, frame, count: 1 });
}
const crumbs = steps.map(({ node, frame, count }) => {
const name = frames.nameOf(frame);
const [text, title] =
count > 1 ? [`${name} × ${count}`, `${count} functions without symbol in ${name}`] : [name, name];
const crumb = makeButton("crumb", text, title, () => this.panel.zoom.to(node));
if (node === zoomed) crumb.setAttribute("aria-current", "location");
return crumb;
});
const row = byId("flame-path");
row.replaceChildren(...crumbs);
row.scrollLeft = row.scrollWidth;
}
}
function changeEntry([text, title, colour, mark]) {
const entry = swatchEntry("legend-entry", ["gone", "", "new"][mark + 1], element("span", "legend-name", text));
entry.title = title;
entry.firstChild.style.background = `var(${colour})`;
return entry;
}
const ON_MODULES = ["y", "Y"];
class Details {
constructor(panel, { tip, line, actions, menu }) {
Object.assign(this, { panel, tip, line, actions, menu });
for (const place of [actions, menu]) {
for (const [key, label, explanation] of ACTIONS) {
const button = makeButton("", label, explanation, () => {
this.closeMenu();
runAction(panel, key);
});
button.dataset.key = key;
if (place === menu) button.setAttribute("role", "menuitem");
button.append(element("kbd", "", key));
place.append(button);
}
}
document.addEventListener("pointerdown", (event) => {
if (!menu.contains(event.target)) this.closeMenu();
});
menu.addEventListener("keydown", (event) => this.#walkMenu(event));
}
facts(graph, node) {
const { table } = graph;
const { state, answer, frames, page } = this.panel;
const unit = this.panel.unit;
const total = table.totalOf(node);
const amount = (weight) => `${formatWeight(weight, unit)} · ${formatShare(weight, answer.whole)} of all`;
const facts = page.compared ? changeFacts(table, node, unit, page) : [["total", amount(total)]];
if (!page.compared && !state.inverted && graph === this.panel.graph)
facts.push(["self", amount(table.selfOf(node))]);
if (graph.zoomed) facts.push(["of zoom", formatShare(total, table.totalOf(graph.zoomed))]);
if (!page.compared && table.extent < answer.whole)
facts.push([`of ${this.panel.shownName()}`, formatShare(total, table.extent)]);
const frame = table.frameOf(node);
if (frame < 0) return facts;
const dso = frames.dsoOf(frame);
if (dso >= 0) facts.push(["in", page.dsos[dso] || "no module"]);
const cause = page.causes[table.leafOf(node)];
if (!cause) return facts;
const purity = table.purityOf(node);
facts.push([purity === 100 ? "cause" : `${purity} % cause`, `${cause.key}: ${cause.meaning}`]);
const decider = table.deciderOf(node);
if (decider >= 0) facts.push(["decided by", frames.nameOf(decider)]);
if (decider === -2) facts.push(["decided by", "a heuristic (hot loop of a stripped library), not a function name"]);
else if (cause.rule) facts.push(["rule", cause.rule]);
return facts;
}
hover(graph, node, at) {
this.tip.hidden = node < 0 || !this.menu.hidden;
if (this.tip.hidden) return;
const list = element("dl");
for (const [term, text] of this.facts(graph, node)) list.append(element("dt", "", term), element("dd", "", text));
this.tip.replaceChildren(element("strong", "", this.panel.frames.nameOf(graph.table.frameOf(node))), list);
place(this.tip, at, 14);
}
describe(graph, node) {
const frame = node < 0 ? -1 : graph.table.frameOf(node);
this.actions.hidden = frame < 0;
for (const button of [...this.actions.children, ...this.menu.children]) {
button.disabled = !this.panel.frames.isFunction(frame) && !ON_MODULES.includes(button.dataset.key);
}
if (node < 0) {
this.line.textContent = "";
return;
}
const text = this.facts(graph, node).map(([term, value]) => `${term}${term === "rule" ? ":" : ""} ${value}`);
this.line.textContent = `${this.panel.frames.nameOf(frame)} — ${text.join(" · ")}`;
}
openMenu(at) {
this.tip.hidden = true;
this.menu.hidden = false;
place(this.menu, at, 2);
this.menu.querySelector("button:not(:disabled)").focus();
}
closeMenu() {
if (this.menu.hidden) return;
const held = this.menu.contains(document.activeElement);
this.menu.hidden = true;
if (held) this.panel.graph.view.canvas.focus();
}
#walkMenu(event) {
const buttons = [...this.menu.querySelectorAll("button:not(:disabled)")];
const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
if (event.key === "Escape" || event.key === "Tab") this.closeMenu();
else if (step) buttons[(buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length].focus();
else {
const chosen = buttons.find((button) => button.dataset.key === event.key);
if (!chosen) return;
chosen.click();
}
event.preventDefault();
event.stopPropagation();
}
}
function place(box, at, gap) {
const size = box.getBoundingClientRect();
const left = Math.min(at.clientX + gap, document.documentElement.clientWidth - size.width - 8);
const below = at.clientY + gap + 4 + size.height < window.innerHeight;
box.style.left = `${Math.max(8, left)}px`;
box.style.top = `${Math.max(8, below ? at.clientY + gap + 4 : at.clientY - size.height - gap + 2)}px`;
}
class Frames {
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
dsoOf(frame) {
if (frame < 0 || frame >= this.threads) return -1;
return frame < this.count ? this.frameDso[frame] : frame - this.count;
}
kindOf(frame) {
return frame >= 0 && frame < this.count ? this.frameKind[frame] : -1;
}
isFunction(frame) {
return frame >= 0 && frame < this.count;
}
isUnresolved(frame) {
return this.isFunction(frame) && this.nameOf(frame).startsWith("[");
}
matching(test) {
const byName = this.names.map(test);
const matches = new Uint8Array(this.threads + this.page.threads.length);
for (let frame = 0; frame < matches.length; frame += 1) {
matches[frame] = frame < this.count ? byName[this.frameName[frame]] : test(this.nameOf(frame));
}
return matches;
}
}
function matcher(query) {
if (!query) return null;
const expression = query.match(/^\/(.+)\/$/s);
if (!expression) {
const plain = query.toLowerCase();
return (name) => name.toLowerCase().includes(plain);
}
const pattern = new RegExp(expression[1], "i");
return (name) => pattern.test(name);
}
const WHEEL_STEP = 0.0022;
function sizeCanvas(canvas, width, height) {
const ratio = window.devicePixelRatio || 1;
canvas.style.width = `${width}px`;
canvas.style.height = `${height}px`;
canvas.width = Math.round(width * ratio);
canvas.height = Math.round(height * ratio);
const context = canvas.getContext("2d");
context.setTransform(ratio, 0, 0, ratio, 0, 0);
return context;
}
function fitCanvas(canvas, height) {
const width = canvas.parentElement.clientWidth;
const context = sizeCanvas(canvas, width, height);
context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
context.textBaseline = "middle";
return [context, width];
}
function fitText(context, text, width) {
if (width < 18) return "";
if (context.measureText(text).width <= width) return text;
const letters = Math.floor((width / context.measureText(text).width) * text.length) - 2;
return letters < 3 ? "" : `${text.slice(0, letters)}…`;
}
function watchWheel(canvas, zoom, pan) {
const turned = (event) => {
if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY * WHEEL_STEP), event.clientX);
else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX || event.deltaY);
else return;
event.preventDefault();
};
canvas.addEventListener("wheel", turned, { passive: false });
}
const DRAG_FROM = 5;
const PAN_KEYS = { a: -0.2, d: 0.2 };
const ZOOM_KEYS = { w: 0.7, "+": 0.7, "=": 0.7, s: 1 / 0.7, "-": 1 / 0.7 };
const WALK_KEYS = { ArrowDown: "down", ArrowUp: "up", ArrowLeft: "left", ArrowRight: "right", Home: "home" };
function watchGraph(graph) {
const { canvas } = graph.view;
const pointers = new Map();
let dragged = false;
let reach = 0;
canvas.addEventListener("pointerdown", (event) => {
pointers.set(event.pointerId, event);
dragged = false;
if (pointers.size === 2) reach = reachOf(pointers);
});
canvas.addEventListener("pointermove", (event) => {
const before = pointers.get(event.pointerId);
if (!before) {
if (graph.table) graph.hover(graph.nodeAt(event.clientX, event.clientY), event);
return;
}
const way = event.clientX - before.clientX;
if (pointers.size === 1 && !dragged && Math.abs(way) < DRAG_FROM) return;
if (!dragged && pointers.size === 1) canvas.setPointerCapture(event.pointerId);
dragged = true;
pointers.set(event.pointerId, event);
if (pointers.size === 1) graph.pan(-way / graph.width);
else {
const now = reachOf(pointers);
const middle = [...pointers.values()].reduce((sum, pointer) => sum + pointer.clientX, 0) / pointers.size;
if (now > 0 && reach > 0) graph.scale(reach / now, part(middle));
reach = now;
}
graph.hover(-1, event);
});
for (const end of ["pointerup", "pointercancel"])
canvas.addEventListener(end, (event) => pointers.delete(event.pointerId));
canvas.addEventListener("pointerleave", (event) => graph.hover(-1, event));
canvas.addEventListener("click", (event) => {
const node = dragged ? -1 : graph.nodeAt(event.clientX, event.clientY);
dragged = false;
if (node < 0) return;
graph.select(node);
graph.on.zoom(node);
});
canvas.addEventListener("contextmenu", (event) => {
const node = graph.nodeAt(event.clientX, event.clientY);
if (node <= 0) return;
event.preventDefault();
graph.select(node);
graph.on.menu(event);
});
watchWheel(
canvas,
(factor, clientX) => graph.scale(factor, part(clientX)),
(pixels) => graph.pan(pixels / graph.width),
);
canvas.addEventListener("keydown", (event) => {
if (event.ctrlKey || event.metaKey || event.altKey) return;
if (WALK_KEYS[event.key]) graph.walk(WALK_KEYS[event.key]);
else if (PAN_KEYS[event.key]) graph.pan(PAN_KEYS[event.key]);
else if (ZOOM_KEYS[event.key]) graph.scale(ZOOM_KEYS[event.key], middleOfSelection());
else if (event.key === "Enter" || event.key === " ") graph.on.zoom(Math.max(graph.selected, 0));
else if (!graph.on.key(event)) return;
event.preventDefault();
});
function part(clientX) {
return (clientX - canvas.getBoundingClientRect().left) / graph.width;
}
function middleOfSelection() {
if (graph.selected < 0) return 0.5;
const [from, to] = graph.span;
const [start, end] = graph.extentOf(graph.selected);
return Math.min(1, Math.max(0, ((start + end) / 2 - from) / (to - from)));
}
}
function reachOf(pointers) {
const [one, other] = [...pointers.values()];
return Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
}
const ROW = 20;
const GAP = 1;
const NARROW = 3;
const MARK_EDGE = 2;
const MARK_DASH = 4;
const TEXT_FROM = 26;
const LONGEST_TEXT = 300;
const FADED = 0.3;
const ABOVE_ZOOM = 0.62;
class Painter {
constructor(style) {
this.style = style;
this.widths = new Map();
}
draw(context, table, span, box, zoomDepth) {
context.fillStyle = this.style.ground;
context.fillRect(0, 0, box.width, box.height);
context.font = this.style.font;
context.textBaseline = "middle";
for (let depth = 0; depth < table.levels; depth += 1) {
const y = rowTop(depth, box);
if (y > box.height) {
if (box.flame) continue;
break;
}
if (y + ROW >= 0) this.#row(context, table, span, box.width, depth, y, depth < zoomDepth);
}
}
#row(context, table, [from, to], width, depth, y, above) {
const scale = width / (to - from);
const { style } = this;
let pending = null;
const flush = () => {
if (!pending) return;
context.globalAlpha = pending.alpha;
context.fillStyle = pending.fill;
context.fillRect(pending.left, y, pending.right - pending.left, ROW - GAP);
pending = null;
};
table.boxes(depth, from, to, 1 / scale, (node, start, end) => {
const left = Math.max((start - from) * scale, 0);
const right = Math.min((end - from) * scale, width);
const mark = table.markOf(node);
const alpha = mark === 0 ? FADED : above ? ABOVE_ZOOM : 1;
const fill = mark === 2 ? style.match : style.fill(table, node);
if (right - left < NARROW) {
const edge = Math.max(right, left + 1);
if (pending && pending.fill === fill && pending.alpha === alpha && left - pending.right < 1)
pending.right = edge;
else {
flush();
pending = { left, right: edge, fill, alpha };
}
return;
}
flush();
context.globalAlpha = alpha;
context.fillStyle = fill;
context.fillRect(left, y, right - left - GAP, ROW - GAP);
this.#markSide(context, style.markOf(table, node), left, right - left - GAP, y);
if (right - left < TEXT_FROM) return;
const text = this.#fitted(context, style.nameOf(table.frameOf(node)), table.frameOf(node), right - left - 10);
if (!text) return;
context.globalAlpha = 1;
context.fillStyle = mark === 0 ? style.fadedInk : mark === 2 ? style.matchInk : style.ink;
context.fillText(text, left + 5, y + ROW / 2);
});
flush();
context.globalAlpha = 1;
}
#markSide(context, mark, left, width, y) {
if (!mark) return;
context.fillStyle = this.style.outline;
const edge = y + ROW - GAP - MARK_EDGE;
if (mark > 0) context.fillRect(left, edge, width, MARK_EDGE);
else
for (let at = 0; at < width; at += 2 * MARK_DASH)
context.fillRect(left + at, edge, Math.min(MARK_DASH, width - at), MARK_EDGE);
}
outline(context, table, node, [from, to], box, line) {
const scale = box.width / (to - from);
const left = Math.max(0, (table.startOf(node) - from) * scale);
const right = Math.min(box.width, (table.startOf(node) + table.totalOf(node) - from) * scale);
if (right <= left) return;
context.strokeStyle = this.style.outline;
context.lineWidth = line;
context.strokeRect(left + 0.5, rowTop(table.depthOf(node), box) + 0.5, Math.max(right - left - 1.5, 1), ROW - 2);
}
#fitted(context, name, frame, room) {
const text = name.length > LONGEST_TEXT ? name.slice(0, LONGEST_TEXT) : name;
let width = this.widths.get(frame);
if (width === undefined) {
width = context.measureText(text).width;
this.widths.set(frame, width);
}
if (width <= room) return text;
for (let kept = Math.floor((text.length * room) / width) - 1; kept > 1; kept -= 1) {
const cut = `${text.slice(0, kept)}…`;
if (context.measureText(cut).width <= room) return cut;
}
return "";
}
}
function rowTop(depth, box) {
return (box.flame ? box.content - (depth + 1) * ROW : depth * ROW) - box.scroll;
}
function depthAt(y, box) {
return Math.floor((box.flame ? box.content - (y + box.scroll) : y + box.scroll) / ROW);
}
const TWEEN_MS = 180;
const CLOSEST = 1e-9;
class Graph {
constructor(view, painter, on) {
Object.assign(this, { view, painter, on });
this.context = view.canvas.getContext("2d");
this.selected = -1;
this.hovered = -1;
this.zoomed = 0;
this.flame = false;
watchGraph(this);
new ResizeObserver(() => this.resize()).observe(view.scroller);
view.scroller.addEventListener("scroll", () => this.redraw());
}
show(table, { flame, zoomed = 0, span = null }) {
const fresh = !this.table;
this.table = table;
this.flame = flame;
this.zoomed = zoomed;
this.selected = -1;
this.hovered = -1;
this.span = span ?? this.extentOf(zoomed);
this.resize();
if (flame) this.view.scroller.scrollTop = this.content;
else if (fresh) this.view.scroller.scrollTop = 0;
}
extentOf(node) {
const start = this.table.startOf(node);
return [start, start + (this.table.totalOf(node) || 1)];
}
go(zoomed, span, { smooth = true } = {}) {
this.zoomed = zoomed;
cancelAnimationFrame(this.frame);
if (smooth && !window.matchMedia("(prefers-reduced-motion: reduce)").matches)
this.#tween(span ?? this.extentOf(zoomed));
else {
this.span = span ?? this.extentOf(zoomed);
this.resize();
}
}
scale(factor, at = 0.5) {
const [from, to] = this.span;
const anchor = from + (to - from) * at;
this.#clamped(anchor - (anchor - from) * factor, anchor + (to - anchor) * factor);
}
pan(part) {
const [from, to] = this.span;
const way = Math.min(Math.max(part * (to - from), -from), this.table.extent - to);
this.#clamped(from + way, to + way);
}
#clamped(from, to) {
const { extent } = this.table;
const least = extent * CLOSEST;
const low = Math.max(0, Math.min(from, extent - least));
const high = Math.min(extent, Math.max(to, low + least));
cancelAnimationFrame(this.frame);
this.span = [low, high];
this.zoomed = this.table.covering(low, high);
this.grow();
this.redraw();
this.on.moved();
}
grow() {
const { content } = this;
if (this.#contentNow() <= content) return;
this.resize();
if (this.flame) this.view.scroller.scrollTop += this.content - content;
}
#contentNow() {
return ROW * Math.max(this.table.deepest(...this.span, (this.span[1] - this.span[0]) / this.width) + 1, 2);
}
select(node) {
this.selected = node;
if (node >= 0) this.#reveal(node);
this.on.select(node);
this.redraw();
}
resize() {
if (!this.table) return;
const { canvas, scroller, spacer } = this.view;
this.width = Math.max(scroller.clientWidth, 1);
this.content = this.#contentNow();
spacer.style.height = `${this.content}px`;
this.height = scroller.clientHeight;
sizeCanvas(canvas, this.width, this.height);
this.draw();
}
redraw() {
cancelAnimationFrame(this.frame);
this.frame = requestAnimationFrame(() => this.draw());
}
box() {
const { width, height, content, flame } = this;
return { width, height, content, flame, scroll: this.view.scroller.scrollTop };
}
draw() {
if (!this.table) return;
const box = this.box();
this.painter.draw(this.context, this.table, this.span, box, this.table.depthOf(this.zoomed));
if (this.selected >= 0) this.painter.outline(this.context, this.table, this.selected, this.span, box, 2);
if (this.hovered >= 0) this.painter.outline(this.context, this.table, this.hovered, this.span, box, 1);
}
nodeAt(clientX, clientY) {
const frame = this.view.canvas.getBoundingClientRect();
const [from, to] = this.span;
const position = from + ((clientX - frame.left) / this.width) * (to - from);
return this.table.at(depthAt(clientY - frame.top, this.box()), position);
}
hover(node, at) {
if (node !== this.hovered) {
this.hovered = node;
this.redraw();
}
this.on.hover(node, at);
}
walk(way) {
const { table } = this;
const current = Math.max(this.selected, 0);
const inward = this.flame ? "up" : "down";
if (way === "home") this.select(0);
else if (way === "left" || way === "right") this.select(table.sibling(current, way === "left" ? -1 : 1));
else this.select(way === inward ? table.firstChild(current) : Math.max(table.parentOf(current), 0));
}
#tween(goal) {
const from = this.span;
const begin = performance.now();
const step = (now) => {
const part = Math.min(1, Math.max(0, now - begin) / TWEEN_MS);
const eased = 1 - (1 - part) ** 3;
this.span = part === 1 ? goal : [0, 1].map((end) => from[end] + (goal[end] - from[end]) * eased);
if (part === 1) this.resize();
else {
this.draw();
this.frame = requestAnimationFrame(step);
}
};
this.frame = requestAnimationFrame(step);
}
#reveal(node) {
const { scroller } = this.view;
const box = this.box();
const y = rowTop(this.table.depthOf(node), box);
if (y < 0) scroller.scrollTop += y;
else if (y + ROW > this.height) scroller.scrollTop += y + ROW - this.height;
}
}
function pressedOnGraph(panel, event, graph) {
const { key } = event;
const { state, store, zoom } = panel;
if (ACTIONS.some(([action]) => action === key) && graph.selected >= 0) runAction(panel, key);
else if (key === "Escape") store.set({ zoom: [], view: null, upper: [] });
else if (key === "Backspace") zoom.to(Math.max(panel.graph.table.parentOf(panel.graph.zoomed), 0));
else if (key === "n" || key === "N") panel.search.next(key === "n" ? 1 : -1);
else if (key === "i") store.set({ inverted: !state.inverted, order: "weight", zoom: [], view: null });
else if (key === "t" && panel.page.timed) {
store.set({ order: state.order === "time" ? "weight" : "time", inverted: false, zoom: [], view: null });
} else if (key === "o") store.set({ flame: !state.flame });
else if (key === "ContextMenu" && graph.selected >= 0) {
const box = graph.view.canvas.getBoundingClientRect();
panel.details.openMenu({ clientX: box.left + box.width / 3, clientY: Math.max(box.top, 80) });
} else return false;
return true;
}
function pressedOnPage(panel, event) {
if (event.target.matches?.("input, textarea, select")) return;
if (event.key === "/" && !event.ctrlKey) byId("flame-search").focus();
else if (event.key === "?") panel.controls.help();
else return;
event.preventDefault();
}
const HEIGHT = 34;
const EDGE = 4;
const STEPS = { ArrowLeft: -0.1, ArrowRight: 0.1, PageUp: -1, PageDown: 1 };
class Minimap {
constructor(canvas, choose) {
Object.assign(this, { canvas, choose });
this.context = canvas.getContext("2d");
this.picture = document.createElement("canvas");
new ResizeObserver(() => this.paint()).observe(canvas);
canvas.addEventListener("pointerdown", (event) => this.#begin(event));
canvas.addEventListener("pointermove", (event) => this.#drag(event));
canvas.addEventListener("pointerup", (event) => this.#finish(event));
canvas.addEventListener("keydown", (event) => this.#key(event));
}
show(table, style) {
Object.assign(this, { table, style });
this.paint();
}
mark(span) {
this.span = span;
const [from, to] = span.map((end) => Math.round((100 * end) / (this.table.extent || 1)));
this.canvas.setAttribute("aria-valuenow", String(from));
this.canvas.setAttribute("aria-valuetext", `shows ${from} % to ${to} % of the width`);
this.#compose();
}
paint() {
this.width = this.canvas.clientWidth;
if (!this.table || !this.width) return;
const ratio = window.devicePixelRatio || 1;
this.canvas.width = this.picture.width = Math.round(this.width * ratio);
this.canvas.height = this.picture.height = Math.round(HEIGHT * ratio);
const context = this.picture.getContext("2d");
context.setTransform(ratio, 0, 0, ratio, 0, 0);
context.fillStyle = this.style.ground;
context.fillRect(0, 0, this.width, HEIGHT);
const { extent } = this.table;
const scale = this.width / (extent || 1);
const levels = this.table.deepest(0, extent, 1 / scale) + 1;
const row = HEIGHT / Math.max(levels, 8);
const rows = Math.min(levels, HEIGHT * 2);
for (let line = 0; line < rows; line += 1) {
const depth = Math.floor((line * levels) / rows);
this.table.boxes(depth, 0, extent, 1 / scale, (node, start, end) => {
context.fillStyle = this.style.fill(this.table, node);
context.fillRect(start * scale, depth * row, Math.max((end - start) * scale, 1), Math.max(row, 0.5));
});
}
this.#compose();
}
#compose() {
if (!this.span || !this.width || !this.table) return;
const { context, width } = this;
const ratio = window.devicePixelRatio || 1;
context.setTransform(1, 0, 0, 1, 0, 0);
context.drawImage(this.picture, 0, 0);
context.setTransform(ratio, 0, 0, ratio, 0, 0);
const [from, to] = this.span.map((end) => (end / (this.table.extent || 1)) * width);
context.fillStyle = this.style.ground;
context.globalAlpha = 0.68;
context.fillRect(0, 0, from, HEIGHT);
context.fillRect(to, 0, width - to, HEIGHT);
context.globalAlpha = 1;
if (to - from >= width - 1) return;
context.strokeStyle = this.style.outline;
context.lineWidth = 1.5;
context.strokeRect(from + 0.75, 0.75, Math.max(to - from - 1.5, 2), HEIGHT - 1.5);
}
#position(event) {
const part = (event.clientX - this.canvas.getBoundingClientRect().left) / this.width;
return Math.min(Math.max(part, 0), 1) * this.table.extent;
}
#begin(event) {
if (!this.table) return;
this.canvas.setPointerCapture(event.pointerId);
const at = this.#position(event);
const [from, to] = this.span;
const whole = to - from >= this.table.extent * 0.999;
this.grip = { at, moved: false, span: !whole && at > from && at < to ? [from, to] : null };
}
#drag(event) {
if (!this.grip) return;
const at = this.#position(event);
if (Math.abs(at - this.grip.at) * this.width < EDGE * this.table.extent && !this.grip.moved) return;
this.grip.moved = true;
if (!this.grip.span) this.choose(Math.min(at, this.grip.at), Math.max(at, this.grip.at));
else this.#shift(this.grip.span, at - this.grip.at);
}
#finish(event) {
const { grip } = this;
this.grip = null;
if (!grip || grip.moved || grip.span) return;
const [from, to] = this.span;
this.#shift(this.span, this.#position(event) - (from + to) / 2);
}
#shift([from, to], way) {
const allowed = Math.min(Math.max(way, -from), this.table.extent - to);
this.choose(from + allowed, to + allowed);
}
#key(event) {
const step = STEPS[event.key];
if (step === undefined) return;
event.preventDefault();
this.#shift(this.span, step * (this.span[1] - this.span[0]));
}
}
class Search {
constructor(panel) {
this.panel = panel;
this.problem = "";
this.box = byId("flame-search");
this.box.value = panel.state.search;
this.box.addEventListener("input", () => panel.store.set({ search: this.box.value }, { merge: true }));
this.box.addEventListener("keydown", (event) => {
if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
});
}
get query() {
return this.panel.state.search.trim();
}
mark() {
const { frames, graph, upper } = this.panel;
let test = null;
this.problem = "";
try {
test = matcher(this.query);
} catch (error) {
this.problem = error.message;
}
this.box.setAttribute("aria-invalid", String(this.problem !== ""));
const matches = test ? frames.matching(test) : null;
for (const one of [graph, upper]) {
if (!one.table) continue;
one.table.mark(matches);
one.redraw();
}
this.summary();
}
summary() {
const { tables, graph } = this.panel;
byId("flame-match").textContent = graph.table.marks
? this.#share(tables.callers ? this.#ofPairs() : this.#ofTable())
: this.problem;
}
#share({ part, whole, where }) {
if (!part) return "no match";
const zoomed = this.panel.graph.zoomed || (this.panel.tables.callers && this.panel.upper.zoomed);
return `${formatShare(part, whole)} of ${zoomed ? "this zoom" : where}, ${formatWeight(part, this.panel.unit)}`;
}
#ofTable() {
const { table, zoomed } = this.panel.graph;
const { answer, page, state } = this.panel;
const where = table.extent < answer.whole ? this.panel.shownName() : page.events[state.event].name;
return { part: table.matchedWeight(zoomed), whole: table.totalOf(zoomed), where };
}
#ofPairs() {
const { graph: callees, upper: callers, answer, frames, state } = this.panel;
const { upper, lower, weight } = answer.pairs;
let part = 0;
let whole = 0;
for (let row = 0; row < weight.length; row += 1) {
const shown = callees.table.holds(callees.zoomed, lower[row]) && callers.table.holds(callers.zoomed, upper[row]);
if (!shown) continue;
whole += weight[row];
if (callees.table.markOf(lower[row]) || callers.table.markOf(upper[row])) part += weight[row];
}
return { part, whole, where: `the stacks through ${frames.nameOf(state.sandwich)}` };
}
next(step) {
const { graph } = this.panel;
if (!graph.table.marks) return;
const node = graph.table.nextMatch(Math.max(graph.selected, 0), step);
if (node >= 0) graph.select(node);
}
}
class TreeTable {
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
for (let node = 1, above = -1, place = 0; node < size; node += 1) {
if (parent[node] !== above) {
above = parent[node];
place = this.start[above];
}
this.start[node] = place;
place += total[node];
}
}
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
#firstEndingAfter(position, low, high) {
while (low < high) {
const middle = (low + high) >> 1;
if (this.#end(middle) > position) high = middle;
else low = middle + 1;
}
return low;
}
at(depth, position) {
if (depth < 0 || depth >= this.levels) return -1;
const high = this.rows[depth + 1];
const node = this.#firstEndingAfter(position, this.rows[depth], high);
return node < high && this.start[node] <= position ? node : -1;
}
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
let stride = 2;
while (node + stride < high && start[node + stride] + total[node + stride] <= reached) stride *= 2;
node = this.#firstEndingAfter(reached, node + (stride >> 1), Math.min(node + stride, high));
}
}
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
path(node) {
const nodes = [];
for (let current = node; current > 0; current = this.parent[current]) nodes.push(current);
nodes.push(0);
return nodes.reverse();
}
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
sibling(node, step) {
const next = node + step;
return node > 0 && next > 0 && next < this.size && this.parent[next] === this.parent[node] ? next : node;
}
mark(matches) {
this.marks = marksOf(this, matches);
}
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
holds(zoom, node) {
return node >= zoom && this.start[node] >= this.start[zoom] && this.start[node] < this.#end(zoom);
}
nextMatch(node, step) {
for (let count = 0, at = node; count < this.size; count += 1) {
at = (at + step + this.size) % this.size;
if (this.marks[at] === 2) return at;
}
return -1;
}
}
function marksOf({ frame, parent }, matches) {
if (!matches) return null;
const marks = new Uint8Array(parent.length);
for (let node = 0; node < marks.length; node += 1) {
if (matches[frame[node]]) marks[node] = 2;
else if (marks[parent[node]]) marks[node] = 1;
}
return marks;
}
const BLOCK = 64;
class TimeTable {
constructor(columns) {
Object.assign(this, columns);
this.size = this.node.length;
this.extent = this.start[this.size];
this.levels = 1;
for (const node of this.node) this.levels = Math.max(this.levels, this.depth[node] + 1);
this.least = new Int16Array(Math.ceil(this.size / BLOCK)).fill(32767);
for (let sample = 0; sample < this.size; sample += 1) {
const block = Math.floor(sample / BLOCK);
this.least[block] = Math.min(this.least[block], this.shared[sample]);
}
this.causes = new Map();
}
depthOf(run) {
return this.size ? Math.floor(run / this.size) : 0;
}
startOf(run) {
return this.start[this.#first(run)];
}
totalOf(run) {
return this.size ? this.start[this.#stop(run)] - this.start[this.#first(run)] : 0;
}
leafOf(run) {
return this.#cause(run)[0];
}
purityOf(run) {
return this.#cause(run)[1];
}
deciderOf(run) {
return this.#cause(run)[2];
}
#first(run) {
return this.size ? run % this.size : 0;
}
#stop(run) {
const depth = this.depthOf(run);
let sample = this.#first(run) + 1;
while (sample < this.size && this.shared[sample] >= depth) {
if (sample % BLOCK === 0 && this.least[sample / BLOCK] >= depth) sample += BLOCK;
else sample += 1;
}
return Math.min(sample, this.size);
}
#runAt(depth, sample) {
if (this.depth[this.node[sample]] < depth) return -1;
let first = sample;
while (first > 0 && this.shared[first] >= depth) {
if (first % BLOCK === BLOCK - 1 && this.least[(first + 1 - BLOCK) / BLOCK] >= depth) first -= BLOCK;
else first -= 1;
}
return depth * this.size + Math.max(first, 0);
}
#sampleAt(position) {
let low = 0;
let high = this.size;
while (high - low > 1) {
const middle = (low + high) >> 1;
if (this.start[middle] <= position) low = middle;
else high = middle;
}
return low;
}
#ancestor(run) {
let node = this.node[this.#first(run)];
const depth = this.depthOf(run);
while (this.depth[node] > depth) node = this.parent[node];
return node;
}
#cause(run) {
let leading = this.causes.get(run);
if (leading) return leading;
const stop = this.size ? this.#stop(run) : 0;
const weights = new Map();
let total = 0;
for (let sample = this.#first(run); sample < stop; sample += 1) {
const weight = this.start[sample + 1] - this.start[sample];
const entry = weights.get(this.cause[sample]) ?? [0, this.decider[sample]];
entry[0] += weight;
weights.set(this.cause[sample], entry);
total += weight;
}
leading = [-1, 0, -1];
let most = 0;
for (const [cause, [weight, decider]] of weights) {
if (weight > most) {
most = weight;
leading = [cause, Math.floor((100 * weight) / total), decider];
}
}
if (this.causes.size > 100_000) this.causes.clear();
this.causes.set(run, leading);
return leading;
}
frameOf(run) {
return this.frame[this.#ancestor(run)];
}
selfOf(run) {
const depth = this.depthOf(run);
let own = 0;
for (let sample = this.#first(run); sample < this.#stop(run); sample += 1) {
if (this.depth[this.node[sample]] === depth) own += this.start[sample + 1] - this.start[sample];
}
return own;
}
parentOf(run) {
const depth = this.depthOf(run);
return depth ? this.#runAt(depth - 1, this.#first(run)) : 0;
}
at(depth, position) {
if (depth < 0 || depth >= this.levels || !this.size || position < 0 || position >= this.extent) return -1;
return this.#runAt(depth, this.#sampleAt(position));
}
boxes(depth, from, to, smallest, visit) {
let sample = this.#sampleAt(Math.max(from, 0));
while (sample < this.size && this.start[sample] < to) {
const run = this.#runAt(depth, sample);
if (run < 0) {
sample += 1;
continue;
}
const stop = this.#stop(run);
const start = this.startOf(run);
visit(run, start, this.start[stop]);
const reached = start + smallest;
sample = this.start[stop] < reached && reached < this.extent ? Math.max(stop, this.#sampleAt(reached)) : stop;
}
}
deepest(from, to) {
let deepest = 0;
const last = this.#sampleAt(to);
for (let sample = this.#sampleAt(from); sample <= last && sample < this.size; sample += 1) {
deepest = Math.max(deepest, this.depth[this.node[sample]]);
}
return deepest;
}
path(run) {
const runs = [];
for (let depth = 0; depth <= this.depthOf(run); depth += 1)
runs.push(depth ? this.#runAt(depth, this.#first(run)) : 0);
return runs;
}
resolve() {
return 0;
}
covering(from, to) {
let innermost = 0;
for (let depth = 1; depth < this.levels; depth += 1) {
const run = this.at(depth, (from + to) / 2);
if (run < 0 || this.startOf(run) > from || this.startOf(run) + this.totalOf(run) < to) break;
innermost = run;
}
return innermost;
}
firstChild(run) {
const below = this.size ? this.#runAt(this.depthOf(run) + 1, this.#first(run)) : -1;
return below < 0 ? run : below;
}
sibling(run, step) {
const depth = this.depthOf(run);
const sample = step > 0 ? this.#stop(run) : this.#first(run) - 1;
if (depth === 0 || sample < 0 || sample >= this.size) return run;
const next = this.#runAt(depth, sample);
return next < 0 ? run : next;
}
mark(matches) {
this.marks = marksOf(this, matches);
}
markOf(run) {
return this.marks ? this.marks[this.#ancestor(run)] : -1;
}
matchedWeight(zoom) {
let weight = 0;
for (let sample = this.#first(zoom), stop = this.#stop(zoom); sample < stop; sample += 1) {
if (this.marks[this.node[sample]]) weight += this.start[sample + 1] - this.start[sample];
}
return weight;
}
nextMatch(run, step) {
const from = this.size ? this.#first(run) : 0;
for (let count = 1; count <= this.size; count += 1) {
const sample = (from + count * step + this.size * 2) % this.size;
let node = this.node[sample];
if (!this.marks[node]) continue;
while (this.marks[node] !== 2) node = this.parent[node];
return this.#runAt(this.depth[node], sample);
}
return -1;
}
}
const SAME_GESTURE_MS = 900;
class Zoom {
constructor(panel) {
this.panel = panel;
this.last = -Infinity;
this.moving = false;
}
spanIn(table, node) {
const { view } = this.panel.state;
if (!view) return null;
const start = table.startOf(node);
return view.map((part) => start + part * table.totalOf(node));
}
follow() {
if (this.moving) return;
const { graph, upper, tables, state } = this.panel;
const { table } = graph;
const anchor = table.resolve(state.zoom);
const span = this.spanIn(table, anchor);
graph.go(span && table.kind === "time" ? table.covering(...span) : anchor, span);
if (tables.callers) upper.go(tables.callers.resolve(state.upper), null);
}
to(node, graph = this.panel.graph) {
const { store, upper } = this.panel;
const { table } = graph;
graph.select(node);
if (graph === upper) store.set({ upper: framesTo(table, node) });
else if (table.kind === "time") store.set({ zoom: [], view: node ? partsOf(table, node) : null });
else store.set({ zoom: framesTo(table, node), view: null });
}
moved(graph) {
if (graph === this.panel.upper) return;
const { table, zoomed, span } = graph;
const anchor = table.kind === "time" ? 0 : zoomed;
const start = table.startOf(anchor);
const total = table.totalOf(anchor) || 1;
const view = span.map((end) => +((end - start) / total).toFixed(9));
const whole = view[0] <= 0 && view[1] >= 1;
const merge = performance.now() - this.last < SAME_GESTURE_MS;
this.last = performance.now();
this.moving = true;
this.panel.store.set({ zoom: framesTo(table, anchor), view: whole ? null : view }, { merge });
this.moving = false;
}
choose(from, to) {
const { graph } = this.panel;
graph.span = [from, Math.max(to, from + graph.table.extent * 1e-6)];
graph.zoomed = graph.table.covering(...graph.span);
graph.grow();
graph.redraw();
this.moved(graph);
}
}
function framesTo(table, node) {
return table
.path(node)
.slice(1)
.map((step) => table.frameOf(step));
}
function partsOf(table, node) {
return [table.startOf(node) / table.extent, (table.startOf(node) + table.totalOf(node)) / table.extent];
}
const EDITS = CHANGES.filter((key) => key !== "sandwich");
const QUERY = ["event", ...FILTERS, "split", "inverted", "order", "sandwich", "side"];
class FlamePanel {
constructor(page, store, script) {
Object.assign(this, { page, store });
this.engine = new Engine(script);
this.controls = new Controls(this, store);
this.details = new Details(this, {
tip: byId("flame-tip"),
line: byId("flame-detail"),
actions: byId("flame-actions"),
menu: byId("flame-menu"),
});
this.graph = this.#graph("flame");
this.upper = this.#graph("flame-callers");
this.zoom = new Zoom(this);
this.search = new Search(this);
this.sides = page.compared ? new Sides(page, store) : null;
this.minimap = new Minimap(byId("flame-minimap"), (from, to) => this.zoom.choose(from, to));
for (const kind of ["svg", "png", "print", "link"]) {
byId(`flame-save-${kind}`).addEventListener("click", () => saveView(this, kind));
}
window.addEventListener("beforeprint", () => printView(this, true));
window.addEventListener("afterprint", () => printView(this, false));
document.addEventListener("keydown", (event) => pressedOnPage(this, event));
store.subscribe((state, before) => this.#changed(state, before));
}
start() {
this.ready = this.#begin();
return this.ready;
}
async #begin() {
const { layout, facts } = this.page.flame;
const [columns, names] = await Promise.all([
this.engine.start({ packed: embedded("flame-data"), layout, facts }),
inflatedText("flame-names"),
]);
this.frames = new Frames(this.page, columns, JSON.parse(names));
await this.#ask();
}
get state() {
return this.store.state;
}
get unit() {
return this.page.events[this.state.event].unit;
}
shownName() {
return this.state.range >= 0 ? this.page.ranges[this.state.range].name : "what is shown";
}
recolour() {
if (!this.answer) return;
this.#style();
this.graph.draw();
this.upper.draw();
this.minimap.show(this.graph.table, this.painter.style);
}
#graph(id) {
const view = { scroller: byId(`${id}-scroller`), spacer: byId(`${id}-spacer`), canvas: byId(`${id}-canvas`) };
const graph = new Graph(view, null, {
moved: () => this.zoom.moved(graph),
select: (node) => {
this.acting = graph;
this.details.describe(graph, node);
},
zoom: (node) => this.zoom.to(node, graph),
hover: (node, at) => this.details.hover(graph, node, at),
menu: (at) => this.details.openMenu(at),
key: (event) => pressedOnGraph(this, event, graph),
});
return graph;
}
#changed(state, before) {
if (!this.frames) return;
const { box } = this.search;
if (box.value !== state.search) box.value = state.search;
if ([...QUERY, ...EDITS].some((key) => JSON.stringify(state[key]) !== JSON.stringify(before[key]))) {
this.#ask();
return;
}
if (!this.answer) return;
if (state.colour !== before.colour) this.recolour();
if (state.flame !== before.flame) this.#showTables();
else if (["zoom", "view", "upper"].some((key) => state[key] !== before[key])) this.zoom.follow();
if (state.search !== before.search) this.search.mark();
this.#describe();
}
async #ask() {
const { state } = this;
const values = (keys) => Object.fromEntries(keys.map((key) => [key, state[key]]));
const asked = { ...values(QUERY), edits: values(EDITS) };
this.asked = asked;
byId("flame").setAttribute("aria-busy", "true");
const answer = await this.engine.derive(asked);
if (asked !== this.asked) {
this.engine.release(answer);
return;
}
if (this.answer) this.engine.release(this.answer);
this.answer = answer;
this.ranks = ranked(answer.facets.dsos);
this.tables = Object.fromEntries(
Object.entries(answer.tables).map(([name, columns]) => [
name,
columns.kind === "time" ? new TimeTable(columns) : new TreeTable(columns),
]),
);
this.#style();
this.#showTables();
this.search.mark();
this.#describe();
byId("flame").setAttribute("aria-busy", "false");
byId("flame").dataset.ready = String(this.state.event);
}
#style() {
this.painter = new Painter(colourStyle(this.state.colour, this.page, this.frames, this.ranks));
this.graph.painter = this.painter;
this.upper.painter = this.painter;
}
#showTables() {
const { main, callers } = this.tables;
const { state } = this;
byId("flame-callers").hidden = !callers;
if (!callers) {
this.upper.table = null;
if (this.acting === this.upper) this.acting = this.graph;
}
if (callers) {
byId("flame-callers-name").textContent = this.frames.nameOf(state.sandwich);
this.upper.show(callers, { flame: true, zoomed: callers.resolve(state.upper) });
}
const zoomed = main.resolve(state.zoom);
this.graph.show(main, { flame: state.flame && !callers, zoomed, span: this.zoom.spanIn(main, zoomed) });
if (this.graph.span && main.kind === "time" && state.view) this.graph.zoomed = main.covering(...this.graph.span);
this.details.describe(this.graph, -1);
this.minimap.show(main, this.painter.style);
byId("flame-empty").hidden = main.extent > 0;
}
#describe() {
const { graph, state } = this;
this.controls.show(state, this.answer);
this.sides?.show(state, this.answer, this.unit);
this.controls.path(graph.table, graph.zoomed);
const anchor = graph.table.resolve(state.zoom);
this.minimap.mark(this.zoom.spanIn(graph.table, anchor) ?? graph.extentOf(anchor));
const what =
this.answer.total < this.answer.whole ? `, ${formatShare(graph.table.extent, this.answer.whole)} of all` : "";
graph.view.canvas.setAttribute(
"aria-label",
`Flamegraph of ${this.page.events[state.event].name}: ${formatWeight(graph.table.extent, this.unit)}${what}`,
);
this.search.summary();
}
}
const BLOCK_BYTES = 2 ** 21;
const BLOCKS_PX = 96;
const BLOCKS_AXIS_PX = 22;
class BlocksPanel {
constructor({ blocks, extent }) {
this.blocks = blocks;
this.count = extent / BLOCK_BYTES;
this.canvas = byId("blocks");
this.most = Math.max(1, ...blocks.flips);
const moved = blocks.flips.filter((flips) => flips > 0).length;
this.summary = `${formatCount(moved)} of ${formatCount(this.count)} blocks changed direction, at most ${formatCount(this.most)} times.`;
this.canvas.setAttribute("aria-label", this.summary);
this.canvas.addEventListener("pointermove", (event) => this.#hover(event));
this.canvas.addEventListener("pointerleave", () => this.#describe(-1));
this.canvas.addEventListener("keydown", (event) => this.#key(event));
new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
this.draw();
this.#describe(-1);
this.canvas.dataset.ready = "true";
}
draw() {
const [context, width] = fitCanvas(this.canvas, BLOCKS_PX + BLOCKS_AXIS_PX);
if (!width) return;
this.left = width < 640 ? 58 : 74;
this.wide = width - this.left - 2;
context.clearRect(0, 0, width, BLOCKS_PX + BLOCKS_AXIS_PX);
context.strokeStyle = themed("--line");
context.strokeRect(this.left - 0.5, 0.5, this.wide + 1, BLOCKS_PX);
const step = this.wide / this.count;
this.blocks.place.forEach((place, at) => {
const high = (this.blocks.flips[at] / this.most) * (BLOCKS_PX - 8);
context.fillStyle = themed(at === this.described ? "--accent" : "--level-fault");
context.fillRect(this.left + place * step, BLOCKS_PX - high, Math.max(step - (step > 4 ? 1 : 0), 1), high);
});
context.fillStyle = themed("--soft");
context.textAlign = "right";
for (const flips of new Set([this.most, Math.round(this.most / 2)])) {
if (flips)
context.fillText(
`${formatCount(flips)} ×`,
this.left - 8,
BLOCKS_PX - (flips / this.most) * (BLOCKS_PX - 8) + 4,
);
}
const label = formatBytes(this.count * BLOCK_BYTES);
context.fillText(label, this.left + this.wide, BLOCKS_PX + 13);
context.textAlign = "left";
context.fillText("0", this.left, BLOCKS_PX + 13);
}
#hover(event) {
const part = (event.clientX - this.canvas.getBoundingClientRect().left - this.left) / this.wide;
this.#describe(this.blocks.place.indexOf(Math.floor(part * this.count)));
}
#key(event) {
const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
if (!step) return;
event.preventDefault();
this.#describe(Math.min(Math.max(this.described + step, 0), this.blocks.place.length - 1));
}
#describe(at) {
const changed = this.described !== at;
this.described = at;
const { place, flips, to_device: down, to_host: up, faults } = this.blocks;
byId("blocks-detail").textContent =
at < 0
? this.summary
: `${formatBytes(place[at] * BLOCK_BYTES)} into memory · ${formatCount(flips[at])} direction changes · ${formatBytes(down[at])} to the device, ${formatBytes(up[at])} to the host · ${formatCount(faults[at])} faults`;
if (changed) this.draw();
}
}
const TICK_FACTORS = [1, 2, 5, 10];
const TICK_UNITS = [
["s", 1e9],
["ms", 1e6],
["µs", 1e3],
["ns", 1],
];
function unpackSpans(columns) {
let at = 0;
const start = columns.start.map((step) => (at += step));
const size = start.length;
const filled = (values, value) => (values.length ? values : new Array(size).fill(value));
return {
...columns,
start,
depth: filled(columns.depth, 0),
size: filled(columns.size, 0),
count: filled(columns.count, 1),
busy: columns.busy.length ? columns.busy : columns.length,
};
}
function timeTicks(from, to, width, room = 90) {
const least = ((to - from) * room) / Math.max(width, 1);
const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
const step = Math.max(power * TICK_FACTORS.find((factor) => factor * power >= least), 1);
const [unit, factor] = TICK_UNITS.find(([, value]) => to >= value && step * 1000 >= value) ?? TICK_UNITS.at(-1);
const ticks = [];
for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
ticks.push([at, `${at ? `${Number((at / factor).toFixed(3)).toLocaleString("en-US")} ${unit}` : "0"}`]);
}
return ticks;
}
const FIELD_PX = 300;
const KERNEL_STRIP_PX = 16;
const FAULT_STRIP_PX = 10;
const FIELD_AXIS_PX = 24;
const HEAT_GAP_PX = 14;
const LEAST_MARK_PX = 1.4;
const PAGE_POWER = 12;
const TOP_POWER = 21.6;
const SQUARE_PX = [2, 14];
const HEAT_ROWS = 64;
const TO_HOST_ALPHA = 0.38;
class FieldPainter {
constructor(field, { kernels, faults, largest }) {
Object.assign(this, { field, kernels, faults });
this.leastPower = PAGE_POWER - 0.6;
this.mostPower = Math.max(TOP_POWER, Math.log2(largest) + 0.6);
}
draw(canvas, moved, { byPlace, away }) {
const strips = KERNEL_STRIP_PX + (this.faults.start.length ? FAULT_STRIP_PX : 0);
const height = strips + FIELD_PX + FIELD_AXIS_PX;
const [context, width] = fitCanvas(canvas, height);
if (!width) return;
const narrow = width < 640;
const left = narrow ? 58 : 74;
const heat = narrow ? 34 : 80;
this.plot = { left, top: strips, width: width - left - heat - HEAT_GAP_PX, height: FIELD_PX };
Object.assign(this, { context, moved, byPlace, away });
this.colours = this.field.styles.map((style) => themed(`--level-${style.level}`));
context.clearRect(0, 0, width, height);
this.#ground();
this.#labels();
this.#marks();
this.#heat(left + this.plot.width + HEAT_GAP_PX, heat);
}
#x(time) {
return this.plot.left + this.#wide(time);
}
#wide(length) {
return (length / this.field.span) * this.plot.width;
}
#marks() {
const { context, plot, moved } = this;
context.save();
context.beginPath();
context.rect(plot.left, plot.top, plot.width, plot.height);
context.clip();
const gone = themed("--line");
this.marks = Array.from(moved.start, (_, at) => this.#mark(at));
this.marks.forEach((box, at) => {
const filled = moved.count[at] > 1 ? 0.3 + 0.7 * (moved.busy[at] / Math.max(moved.length[at], 1)) : 1;
const away = this.away(at);
context.globalAlpha = away ? 1 : Math.min(filled, 1) * (moved.depth[at] ? TO_HOST_ALPHA : 1);
context.fillStyle = away ? gone : this.colours[moved.style[at]];
context.fillRect(...box);
});
context.restore();
}
#mark(at) {
const { plot, field, moved } = this;
const left = this.#x(moved.start[at]);
const wide = Math.max(this.#wide(moved.length[at]), LEAST_MARK_PX);
if (this.byPlace) {
const scale = plot.height / field.extent;
const covered = Math.min(moved.size[at], field.extent - moved.place[at]);
return [left, plot.top + moved.place[at] * scale, wide, Math.max(covered * scale, LEAST_MARK_PX)];
}
const part = this.#power(moved.size[at] / moved.count[at]);
const side = SQUARE_PX[0] + part ** 4 * (SQUARE_PX[1] - SQUARE_PX[0]);
return [left, plot.top + plot.height * (1 - part) - side / 2, Math.max(wide, side), side];
}
#power(size) {
const part = (Math.log2(Math.max(size, 1)) - this.leastPower) / (this.mostPower - this.leastPower);
return Math.min(Math.max(part, 0), 1);
}
#ground() {
const { context, plot, kernels, faults } = this;
const kernel = themed("--level-user");
context.strokeStyle = themed("--line");
context.strokeRect(plot.left - 0.5, plot.top - 0.5, plot.width + 1, plot.height + 1);
context.fillStyle = kernel;
kernels.start.forEach((start, at) => {
const from = this.#x(start);
const wide = Math.max(this.#x(start + kernels.length[at]) - from, 1);
context.fillRect(from, 2, wide, KERNEL_STRIP_PX - 6);
context.globalAlpha = 0.18;
context.fillRect(from, plot.top, wide, plot.height);
context.globalAlpha = 1;
});
context.fillStyle = themed("--level-fault");
faults.start.forEach((start, at) => {
const wide = Math.max(this.#wide(faults.length[at]), 1);
context.fillRect(this.#x(start), KERNEL_STRIP_PX - 2, wide, FAULT_STRIP_PX - 3);
});
context.fillStyle = themed("--soft");
context.textAlign = "right";
if (kernels.start.length) context.fillText("kernels", plot.left - 8, KERNEL_STRIP_PX / 2 - 1);
if (faults.start.length) context.fillText("faults", plot.left - 8, KERNEL_STRIP_PX + FAULT_STRIP_PX / 2 - 2);
context.textAlign = "left";
}
#labels() {
const { context, plot } = this;
const bottom = plot.top + plot.height;
context.fillStyle = themed("--soft");
for (const [at, label] of timeTicks(0, this.field.span, plot.width, 84)) {
const half = context.measureText(label).width / 2;
const left = Math.min(Math.max(this.#x(at) - half, plot.left), plot.left + plot.width - 2 * half);
context.fillText(label, left, bottom + 14);
}
context.textAlign = "right";
for (const [part, label] of this.byPlace ? this.#places() : this.#sizes()) {
const y = plot.top + part * plot.height;
context.fillText(label, plot.left - 8, Math.min(y, bottom - 6));
if (!this.byPlace) context.fillRect(plot.left - 4, y, 4, 1);
}
context.textAlign = "left";
}
#places() {
const { extent } = this.field;
const step = 2 ** Math.ceil(Math.log2(extent / 6));
const ticks = Array.from({ length: Math.floor(extent / step) }, (_, at) => (at + 1) * step);
return ticks.map((place) => [place / extent, formatBytes(place)]);
}
#sizes() {
const ticks = [];
for (let power = PAGE_POWER; power < this.mostPower; power += 3) {
ticks.push([1 - this.#power(2 ** power), formatBytes(2 ** power)]);
}
return ticks;
}
#heat(left, width) {
const { context, moved, plot, colours } = this;
const count = this.byPlace ? HEAT_ROWS : Math.ceil(this.mostPower - PAGE_POWER) + 1;
const rows = Array.from({ length: count }, () => colours.map(() => 0));
for (let at = 0; at < moved.start.length; at += 1) {
if (this.away(at)) continue;
const [first, last] = this.#heatRows(at, count);
for (let row = first; row <= last; row += 1) rows[row][moved.style[at]] += moved.size[at] / (last - first + 1);
}
const most = Math.max(1, ...rows.map((row) => row.reduce((sum, part) => sum + part, 0)));
const high = plot.height / count;
rows.forEach((row, at) => {
let from = left;
const middle = plot.height * (1 - this.#power(2 ** (PAGE_POWER + at)));
const top = plot.top + (this.byPlace ? at * high : middle - high / 2);
row.forEach((part, style) => {
context.fillStyle = colours[style];
const wide = (part / most) * width;
context.fillRect(from, top, wide, Math.max(high - 1, 0.6));
from += wide;
});
});
context.fillStyle = themed("--soft");
const title = "bytes moved";
if (width > context.measureText(title).width) context.fillText(title, left, plot.top + plot.height + 14);
}
#heatRows(at, count) {
const { moved, field } = this;
const mean = Math.max(moved.size[at] / moved.count[at], 1);
const bounded = (row) => Math.min(Math.max(row, 0), count - 1);
if (!this.byPlace) {
const row = bounded(Math.round(Math.log2(mean)) - PAGE_POWER);
return [row, row];
}
const rowOf = (place) => bounded(Math.floor((place / field.extent) * count));
return [rowOf(moved.place[at]), rowOf(moved.place[at] + mean - 1)];
}
}
const HOVER_PX = 6;
class FieldPanel {
constructor(field, store, views) {
Object.assign(this, { field });
this.passes = null;
this.bySize = unpackSpans(field.bySize);
this.byPlace = field.byPlace ? unpackSpans(field.byPlace) : this.bySize;
this.moved = this.bySize;
this.kernels = unpackSpans(field.kernels);
const largest = this.bySize.size.reduce((most, size, at) => Math.max(most, size / this.bySize.count[at]), 1);
this.painter = new FieldPainter(field, { kernels: this.kernels, faults: unpackSpans(field.faults), largest });
this.canvas = byId("field");
this.#watchMode();
this.canvas.addEventListener("pointermove", (event) => this.#hover(event));
new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
store.follow(["span", "range"], async (state) => {
const instances = state.span || state.range >= 0 ? await views.instances() : null;
if (state.span !== store.state.span || state.range !== store.state.range) return;
this.passes = instances?.test(state);
this.#legend();
this.draw();
});
this.canvas.dataset.ready = "true";
}
#watchMode() {
this.mode = "size";
const buttons = [...document.querySelectorAll("[data-field]")];
for (const button of buttons) {
button.addEventListener("click", () => {
this.mode = button.dataset.field;
this.moved = this.mode === "place" ? this.byPlace : this.bySize;
for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
this.draw();
});
}
}
#isAway(at) {
return Boolean(this.passes) && !this.passes(this.field.start + this.moved.start[at]);
}
#legend() {
const { moved, field } = this;
const entries = [];
const add = (level, text) => entries.push(swatchEntry("legend-entry", `l-${level}`, element("span", "", text)));
const count = field.styles.map(() => 0);
const present = new Set(moved.style);
moved.style.forEach((style, at) => {
if (!this.#isAway(at)) count[style] += moved.count[at];
});
field.styles.forEach((style, at) => {
if (present.has(at)) add(style.level, `${style.label} (${formatCount(count[at])})`);
});
if (moved.depth.includes(1)) entries.push(element("span", "legend-entry", "pale: to the host"));
if (this.kernels.start.length) add("user", "a kernel runs");
byId("field-legend").replaceChildren(...entries);
}
draw() {
this.painter.draw(this.canvas, this.moved, { byPlace: this.mode === "place", away: (at) => this.#isAway(at) });
}
#hover(event) {
const box = this.canvas.getBoundingClientRect();
const [x, y] = [event.clientX - box.left, event.clientY - box.top];
let nearest = -1;
let least = HOVER_PX;
this.painter.marks.forEach(([left, top, wide, high], at) => {
const away = Math.max(left - x, x - left - wide, 0) + Math.max(top - y, y - top - high, 0);
if (away < least) {
least = away;
nearest = at;
}
});
byId("field-detail").textContent = nearest < 0 ? "" : this.#words(nearest);
}
#words(at) {
const { moved, field } = this;
const many = moved.count[at] > 1 ? `${formatCount(moved.count[at])} migrations merged, ` : "";
const way = moved.depth[at] ? "to the host" : "to the device";
const facts = [
`${many}${formatBytes(moved.size[at])} ${way}`,
field.styles[moved.style[at]].label,
`${formatNs(moved.length[at])} at ${formatNs(moved.start[at])}`,
`${formatBytes(moved.place[at])} into memory`,
];
return facts.join(" · ");
}
}
let started = null;
function startPlotly(source) {
started ??= beginPlotly(source);
return started;
}
async function beginPlotly(source) {
const script = document.createElement("script");
if (!source) {
script.textContent = await inflatedText("plot-script");
document.head.append(script);
return;
}
await new Promise((resolve) => {
script.addEventListener("load", resolve);
script.src = source;
document.head.append(script);
});
}
function whenSeen(node, seen) {
const observer = new IntersectionObserver((entries) => {
if (!entries.some((entry) => entry.isIntersecting)) return;
observer.disconnect();
seen();
});
observer.observe(node);
}
function plotStyle() {
const line = themed("--line");
return {
paper_bgcolor: "rgba(0,0,0,0)",
plot_bgcolor: "rgba(0,0,0,0)",
font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: themed("--ink") },
hoverlabel: { bgcolor: themed("--raised"), bordercolor: line, font: { color: themed("--ink") } },
};
}
const ROW_PX = 34;
const FRAME_PX = 64;
const LEGEND_ROWS = 9;
const SMALLEST_SHARE = 0.002;
const AXIS_UNITS = { ns: [1e6, "ms"], bytes: [2 ** 20, "MiB"] };
class Chart {
constructor(page, changed) {
this.page = page;
this.host = document.getElementById("chart");
this.buttons = [...document.querySelectorAll("[data-measure]")];
this.measure = "mean";
for (const button of this.buttons) {
button.addEventListener("click", () => {
this.measure = button.dataset.measure;
this.draw();
changed();
});
}
whenSeen(this.host, async () => {
await startPlotly(this.host.dataset.source);
this.draw();
});
}
show(state, rows) {
Object.assign(this, { state, rows });
this.draw();
}
draw() {
if (!this.rows) return;
for (const button of this.buttons)
button.setAttribute("aria-pressed", String(button.dataset.measure === this.measure));
const { event, causes } = this.state;
const shown = this.rows
.map((row, index) => ({ ...row, range: this.page.ranges[index] }))
.filter((row) => row.range.leaves[event]?.length);
this.host.parentElement.hidden = !shown.length;
if (!shown.length || !window.Plotly) return;
const { unit } = this.page.events[event];
const line = themed("--line");
const config = { displayModeBar: false, responsive: true };
window.Plotly.react(this.host, this.#traces(shown, causes, unit), this.#layout(shown, unit, line), config).then(
() => {
this.host.dataset.ready = `${event} ${this.measure}`;
},
);
}
#traces(shown, chosen, unit) {
const sums = new Map();
for (const { range } of shown)
for (const [cause, weight] of range.leaves[this.state.event]) sums.set(cause, (sums.get(cause) ?? 0) + weight);
const order = [...sums].sort((one, other) => other[1] - one[1]).map(([cause]) => cause);
const weightIn = ({ leaves }, cause) => leaves.find(([one]) => one === cause)?.[1] ?? 0;
const causes = order.filter((cause) =>
shown.some((row) => weightIn(row, cause) > 0 && weightIn(row, cause) >= SMALLEST_SHARE * row.total),
);
return causes
.filter((cause) => !chosen.length || chosen.includes(cause))
.map((cause, rank) => ({
type: "bar",
orientation: "h",
name: this.page.causes[cause].key,
showlegend: rank < LEGEND_ROWS,
y: shown.map((_, index) => index),
x: shown.map((row) => this.#length(weightIn(row, cause), row, unit)),
text: shown.map((row) => barText(weightIn(row, cause), row, unit)),
textposition: "none",
hovertemplate: "<b>%{fullData.name}</b><br>%{text}<extra></extra>",
marker: {
color: themed(`--cause-${this.page.causes[cause].slug}`),
line: { width: 1, color: themed("--card") },
},
}));
}
#length(weight, row, unit) {
if (this.measure === "share") return row.total ? (100 * weight) / row.total : 0;
const each = this.measure === "mean" ? Math.max(row.count, 1) : 1;
return weight / (AXIS_UNITS[unit]?.[0] ?? 1) / each;
}
#widest(labels) {
const ruler = document.createElement("canvas").getContext("2d");
ruler.font = `12px ${getComputedStyle(document.body).fontFamily}`;
return Math.min(Math.max(...labels.map((label) => ruler.measureText(label).width)), this.host.clientWidth / 2);
}
#layout(shown, unit, line) {
const share = this.measure === "share";
const left = this.#widest(shown.map((row) => row.range.label)) + 14;
const title = share ? "%" : (AXIS_UNITS[unit]?.[1] ?? unit);
return {
...plotStyle(),
barmode: "stack",
bargap: 0.32,
height: FRAME_PX + ROW_PX * shown.length,
margin: { l: left, r: 8, t: 8, b: 48 },
xaxis: {
title: { text: title, standoff: 8 },
fixedrange: true,
zeroline: false,
gridcolor: line,
zerolinecolor: line,
rangemode: "tozero",
...(share && { range: [0, 100] }),
},
yaxis: {
autorange: false,
range: [shown.length - 0.5, -0.5],
fixedrange: true,
showticklabels: false,
showgrid: false,
zeroline: false,
},
annotations: shown.map((row, index) => ({
text: row.range.label,
xref: "paper",
x: 0,
xanchor: "left",
xshift: -left,
y: index,
showarrow: false,
align: "left",
})),
legend: { traceorder: "normal" },
showlegend: this.host.clientWidth > 640,
hovermode: "closest",
dragmode: false,
};
}
}
function barText(weight, { total, count }, unit) {
return `${formatShare(weight, total)} · ${count ? formatWeight(weight / count, unit) : "–"} each`;
}
const SMALLEST_PX = 11;
const LARGEST_PX = 26;
const LEGEND_SHARE = 0.25;
const LETTER_PX = 6.8;
const KEY_PX = 60;
class Plots {
constructor(figures) {
this.figures = figures;
this.hosts = [...document.querySelectorAll("[data-plot]")];
for (const host of this.hosts) {
whenSeen(host, async () => {
await startPlotly(host.dataset.source);
this.#draw(host);
});
}
}
filter(name, instances, state) {
const host = this.hosts.find((one) => one.dataset.plot === name);
if (!host || (!instances && !this.filtered)) return;
this.filtered = instances && { [name]: copiesShown(this.figures[name], instances, state) };
if (host.dataset.ready) this.#draw(host);
}
recolour() {
for (const host of this.hosts) if (host.dataset.ready) this.#draw(host);
}
#draw(host) {
const figure = this.filtered?.[host.dataset.plot] ?? this.figures[host.dataset.plot];
const line = themed("--line");
const data = figure.data.map((trace) => {
if (trace.meta === "limit") return { ...trace, line: { ...trace.line, color: themed("--soft") } };
const colour = themed(`--level-${trace.meta}`);
const drawn = trace.line ? { line: { ...trace.line, color: colour } } : {};
const open = trace.marker.symbol.endsWith("-open");
const edge = { width: open ? 2 : 1, color: open ? colour : themed("--card") };
return { ...trace, ...drawn, marker: { ...trace.marker, color: colour, line: edge } };
});
const axis = { gridcolor: line, zerolinecolor: line, linecolor: line };
const narrow = host.clientWidth <= 640;
const below = narrow || longest(data) > host.clientWidth * LEGEND_SHARE;
if (below) for (const trace of data) trace.name = shortened(trace.name, (host.clientWidth - KEY_PX) / LETTER_PX);
const layout = {
...figure.layout,
...plotStyle(),
xaxis: { ...figure.layout.xaxis, ...axis },
yaxis: { ...figure.layout.yaxis, ...axis },
legend: { ...figure.layout.legend, ...(below ? { orientation: "h", x: 0, y: -0.22, yanchor: "top" } : {}) },
height: figure.layout.height + (narrow ? 90 : below ? 50 : 0),
};
if (narrow) layout.xaxis.nticks = 4;
window.Plotly.react(host, data, layout, { displayModeBar: false, responsive: true }).then(() => {
host.dataset.ready = "true";
});
}
}
function longest(data) {
return Math.max(...data.map(({ name }) => (name ?? "").length)) * LETTER_PX;
}
function shortened(name = "", letters) {
const ends = Math.floor(letters / 2) - 1;
return name.length > letters ? `${name.slice(0, ends)}…${name.slice(-ends)}` : name;
}
function copiesShown(figure, instances, state) {
const { group, size, busy, count } = instances.copy;
const rows = instances.rows("copy", state).filter((row) => busy[row] > 0 && size[row] > 0);
return {
...figure,
data: figure.data.map((trace) => {
if (trace.meta === "limit") return trace;
const mine = rows.filter((row) => trace.customdata.includes(group[row]));
return {
...trace,
x: mine.map((row) => size[row] / count[row]),
y: mine.map((row) => size[row] / busy[row]),
text: mine.map((row) => `${formatBytes(Math.round(size[row] / count[row]))}${meanOf(count[row])}`),
marker: {
...trace.marker,
size: mine.map((row) => Math.min(SMALLEST_PX + 2 * Math.log2(count[row]), LARGEST_PX)),
},
};
}),
};
}
function meanOf(count) {
return count > 1 ? ` in the mean of ${formatCount(count)} copies` : "";
}
const GRIP_PX = 4;
const ARROWS = { ArrowLeft: -1, ArrowRight: 1 };
const ZOOM_FACTORS = { "+": 0.7, "=": 0.7, "-": 1 / 0.7 };
function watchTimeline(panel) {
const { canvas, painter, timeline } = panel;
let drag = null;
const point = (event) => {
const box = canvas.getBoundingClientRect();
return [event.clientX - box.left, event.clientY - box.top];
};
const endDrag = () => {
drag = null;
panel.dragged = null;
};
canvas.addEventListener("pointerdown", (event) => {
if (event.button) return;
const [x, y] = point(event);
const threads = panel.threadsAt(x, y);
if (threads) panel.store.toggleAll("threads", threads);
if (threads || x < painter.gutter) return;
canvas.setPointerCapture(event.pointerId);
drag = { x, from: painter.time(x), pan: event.shiftKey ? [...panel.view] : null };
});
canvas.addEventListener("pointermove", (event) => {
const [x, y] = point(event);
if (!drag) panel.hover(x, y, event);
else if (drag.pan) {
const [from, to] = drag.pan;
const way = ((drag.x - x) / painter.width) * (to - from);
panel.show(from + way, to + way);
} else if (panel.dragged || Math.abs(x - drag.x) >= GRIP_PX) {
const at = painter.time(x);
panel.brush([Math.min(at, drag.from), Math.max(at, drag.from)]);
}
});
canvas.addEventListener("pointerup", (event) => {
const span = panel.dragged;
const clicked = drag && !drag.pan && !span;
endDrag();
if (span) panel.span = span;
else if (clicked) panel.detail(...point(event));
panel.draw();
});
canvas.addEventListener("pointercancel", () => {
endDrag();
panel.draw();
});
canvas.addEventListener("pointerleave", () => {
panel.tip.hidden = true;
});
canvas.addEventListener("dblclick", (event) => panel.zoomToHit(...point(event)));
watchWheel(
canvas,
(factor, clientX) => panel.zoom(factor, painter.time(clientX - canvas.getBoundingClientRect().left)),
(pixels) => panel.pan(pixels / painter.width),
);
canvas.addEventListener("keydown", (event) => pressed(panel, event));
const press = (id, act) => byId(id).addEventListener("click", act);
press("timeline-in", () => panel.zoom(0.5));
press("timeline-out", () => panel.zoom(2));
press("timeline-whole", () => panel.show(0, timeline.span));
press("timeline-zoom", () => panel.show(...panel.span, false));
press("timeline-clear", () => {
panel.span = null;
});
}
function pressed(panel, event) {
if (event.ctrlKey || event.metaKey || event.altKey) return;
const { key } = event;
const { span, timeline } = panel;
if (ARROWS[key] && event.shiftKey) panel.stretch(ARROWS[key] / 20);
else if (ARROWS[key]) panel.pan(ARROWS[key] * 0.2);
else if (ZOOM_FACTORS[key]) panel.zoom(ZOOM_FACTORS[key]);
else if (key === "0") panel.show(0, timeline.span);
else if (key === "Enter" && span) panel.show(...span);
else if (key === "Escape" && span) panel.span = null;
else return;
event.preventDefault();
event.stopPropagation();
}
class DensityLevels {
constructor({ bin, cause, weight }, step) {
this.levels = [{ step, bin: summed(bin, Float64Array), cause, weight }];
}
at(least) {
let level = this.levels[0];
for (let number = 0; level.step < least && level.bin.length > 1; number += 1) {
this.levels[number + 1] ??= coarserDensity(level);
level = this.levels[number + 1];
}
return level;
}
}
function coarserDensity({ step, bin, cause, weight }) {
const made = { step: 2 * step, bin: [], cause: [], weight: [] };
const place = new Map();
let current = -1;
for (let at = 0; at < bin.length; at += 1) {
const wide = Math.floor(bin[at] / 2);
if (wide !== current) place.clear();
current = wide;
const known = place.get(cause[at]);
if (known === undefined) {
place.set(cause[at], made.bin.length);
made.bin.push(wide);
made.cause.push(cause[at]);
made.weight.push(weight[at]);
} else made.weight[known] += weight[at];
}
return made;
}
const FINEST_PART = 2 ** 16;
class SpanLevels {
constructor(spans, whole) {
this.finest = withReach(spans);
this.step = 2 ** Math.max(Math.ceil(Math.log2(whole / FINEST_PART)), 0);
this.levels = [];
}
at(most) {
let level = this.finest;
for (let number = 0, step = this.step; step <= most; number += 1, step *= 2) {
this.levels[number] ??= withReach(coarserSpans(level, step));
level = this.levels[number];
}
return level;
}
}
function coarserSpans(spans, step) {
const names = ["start", "length", "style", "name", "depth", "size", "count", "busy"];
const made = Object.fromEntries(names.map((name) => [name, []]));
const open = new Map();
for (let at = 0; at < spans.start.length; at += 1) {
const cell = Math.floor(spans.start[at] / step);
const key = spans.depth[at] * 4096 + spans.style[at];
const known = open.get(key);
if (spans.length[at] < step && known?.cell === cell) {
const { place } = known;
const end = Math.max(made.start[place] + made.length[place], spans.start[at] + spans.length[at]);
made.length[place] = end - made.start[place];
for (const name of ["size", "count", "busy"]) made[name][place] += spans[name][at];
made.name[place] = -1;
continue;
}
if (spans.length[at] < step) open.set(key, { cell, place: made.start.length });
for (const name of names) made[name].push(spans[name][at]);
}
return made;
}
function withReach(spans) {
let latest = 0;
const reach = spans.start.map((start, at) => (latest = Math.max(latest, start + spans.length[at])));
return { ...spans, reach };
}
function rowsIn({ start, reach }, [from, to]) {
return [firstAt(reach, from), firstAt(start, to + 1)];
}
function firstAt(values, least) {
let low = 0;
let high = values.length;
while (low < high) {
const middle = (low + high) >> 1;
if (values[middle] < least) low = middle + 1;
else high = middle;
}
return low;
}
const REACH_PX = 3;
const CAUSES_OF_A_STEP = 6;
function hitAt(painter, x, y) {
if (x < painter.gutter) return null;
const row = painter.rowAt(y);
const time = painter.time(x);
if (!row?.levels) return null;
const level = painter.levelOf(row);
const { step } = level;
if (row.kind === "density") return { row, level, start: Math.floor(time / step) * step, length: step };
const [from, to] = painter.shown.view;
const reach = ((to - from) / painter.width) * REACH_PX;
const line = Math.floor((y - row.top) / row.line);
const { start, length, depth } = level;
const [first, end] = rowsIn(level, [time - reach, time + reach]);
for (let at = end - 1; at >= first; at -= 1) {
if (depth[at] === line && start[at] + length[at] >= time - reach) {
return { row, level, at, start: start[at], length: length[at] };
}
}
return null;
}
function wordsOf(page, timeline, hit) {
if (!hit) return [];
if (hit.row.kind === "density") return densityWords(page, timeline, hit);
return [...spanWords(timeline, hit), ...holdersOf(timeline, hit)];
}
function holdersOf({ arrows }, { row, start, length }) {
if (row.kind !== "wait") return [];
const inside = arrows.filter(
(arrow) => arrow.waiter === row.heading && arrow.start >= start - 1 && arrow.end <= start + length + 1,
);
return [...new Set(inside.map(({ holder }) => holder))].map((holder) => `for ${holder}`);
}
function densityWords(page, { unit }, { level, start, length }) {
const { step, bin, weight, cause } = level;
const parts = [];
for (let at = firstAt(bin, Math.round(start / step)); bin[at] * step === start; at += 1) {
parts.push([weight[at], page.causes[cause[at]].key]);
}
parts.sort((one, other) => other[0] - one[0]);
const lines = parts.slice(0, CAUSES_OF_A_STEP).map(([amount, key]) => `${key} ${formatWeight(amount, unit)}`);
return [`${formatNs(length)} on CPU`, `at ${formatNs(start)}`, ...lines];
}
function spanWords({ styles, names }, { row, level: spans, at, start, length }) {
const [many, size, busy] = [spans.count[at], spans.size[at], spans.busy[at]];
const { label } = styles[spans.style[at]];
const name = spans.name[at] >= 0 ? names[spans.name[at]] : label;
const since = `at ${formatNs(start)}`;
const words = [many > 1 ? `${formatCount(many)} × ${label}` : name];
words.push(row.kind === "mark" ? since : `${formatNs(length)}, ${since}`);
if (row.kind === "fault") words.push(`${formatCount(size)} faults`);
else if (size) words.push(`${formatBytes(size)}, ${(size / Math.max(busy, 1)).toFixed(1)} GB/s`);
if (many > 1) words.push(`total ${formatNs(busy)}`);
return words;
}
function heaviestCauses(densities) {
const weights = new Map();
let total = 0;
for (const { weight, cause } of densities) {
for (let index = 0; index < cause.length; index++) {
weights.set(cause[index], (weights.get(cause[index]) ?? 0) + weight[index]);
total += weight[index];
}
}
return [...weights.keys()]
.filter((cause) => weights.get(cause) >= 0.01 * total)
.sort((one, other) => weights.get(other) - weights.get(one));
}
function causesIn(densities, [from, to]) {
const weights = new Map();
for (const { step, bin, weight, cause } of densities) {
for (let at = firstAt(bin, Math.floor(from / step)); at < bin.length && bin[at] * step < to; at += 1) {
const covered = Math.min(to, (bin[at] + 1) * step) - Math.max(from, bin[at] * step);
weights.set(cause[at], (weights.get(cause[at]) ?? 0) + weight[at] * (covered / step));
}
}
const total = [...weights.values()].reduce((sum, weight) => sum + weight, 0);
const heaviest = [...weights].sort((one, other) => other[1] - one[1]);
return heaviest.map(([cause, weight]) => [cause, formatShare(weight, total)]);
}
const TIME_AXIS_PX = 26;
const LANE_PX = {
phase: 18,
range: 20,
mark: 14,
wait: 14,
call: 20,
kernel: 18,
copy: 18,
memset: 14,
migration: 18,
fault: 14,
};
const LANE_GAP_PX = 5;
const HEADING_PX = 30;
const DENSITY_PX = 40;
const MEMORY_PX = 40;
const GPU_KINDS = ["kernel", "copy", "memset", "migration", "fault", "window"];
function layOutRows(timeline) {
const rows = [];
let top = TIME_AXIS_PX;
const add = (row, height) => {
rows.push({ ...row, top, height });
top += height + LANE_GAP_PX;
};
const addHeading = (title) => add({ kind: "heading", title }, HEADING_PX - LANE_GAP_PX);
const addLane = (lane) => {
const spans = unpackSpans(lane);
const depth = spans.depth.reduce((most, value) => Math.max(most, value), 0);
const line = LANE_PX[lane.kind];
const levels = new SpanLevels(spans, timeline.span);
add({ kind: lane.kind, title: lane.title, heading: lane.heading, levels, line }, line * (depth + 1));
};
timeline.lanes.filter((lane) => lane.kind === "phase").forEach(addLane);
for (const heading of headingsOf(timeline)) {
const lanes = timeline.lanes.filter((lane) => lane.heading === heading);
addHeading(heading);
lanes.filter((lane) => lane.kind === "range").forEach(addLane);
for (const density of timeline.densities.filter((one) => one.heading === heading)) {
const levels = new DensityLevels(density, timeline.bin);
add({ kind: "density", title: density.title, levels, full: fullHeight(timeline.unit, density) }, DENSITY_PX);
}
lanes.filter((lane) => lane.kind !== "range").forEach(addLane);
}
if (timeline.memory.length) addHeading("Memory");
for (const use of timeline.memory) add({ kind: "memory", title: use.title, use }, MEMORY_PX);
return { rows, height: top };
}
function arrowEnds(rows) {
const ends = new Map();
let here = {};
for (const row of rows) {
if (row.kind === "heading") {
here = {};
ends.set(row.title, here);
} else if (row.kind === "wait") here.wait ??= row;
else if (row.kind === "density") here.work = row;
if (row.kind !== "heading") here.work ??= row;
}
return ends;
}
function headingsOf({ densities, lanes }) {
const has = (heading, kinds) => lanes.some((lane) => lane.heading === heading && kinds.includes(lane.kind));
const headings = [...new Set([...densities, ...lanes.filter(isHeaded)].map((part) => part.heading))];
return headings.sort(
(one, other) => has(one, GPU_KINDS) - has(other, GPU_KINDS) || has(other, ["range"]) - has(one, ["range"]),
);
}
function isHeaded({ kind }) {
return kind !== "phase";
}
function fullHeight(unit, { threads }) {
if (unit === "ns" && threads === 1) return ({ step }) => step;
return (level) => {
level.most ??= heaviestStep(level);
return level.most;
};
}
function heaviestStep({ bin, weight }) {
let most = 1;
for (let at = 0, sum = 0; at < bin.length; at += 1) {
sum = bin[at] === bin[at - 1] ? sum + weight[at] : weight[at];
most = Math.max(most, sum);
}
return most;
}
const LEAST_ARROW_PX = 8;
const ARROW_PX = 6;
const COARSE_PX = 8;
const INKS = { ink: "--ink", soft: "--soft", line: "--line", on: "--on-cause", card: "--card", accent: "--accent" };
class TimelinePainter {
constructor(page, timeline) {
Object.assign(this, { page, timeline }, layOutRows(timeline));
this.ends = arrowEnds(this.rows);
}
draw(canvas, shown) {
const [context, width] = fitCanvas(canvas, this.height);
if (!width) return;
const gutter = width < 640 ? 84 : 150;
Object.assign(this, { shown, context, gutter, width: width - gutter, right: width });
this.coarse = false;
this.ink = Object.fromEntries(Object.entries(INKS).map(([name, property]) => [name, themed(property)]));
this.colours = this.timeline.styles.map((style) => themed(`--level-${style.level}`));
this.causeColours = this.page.causes.map((cause) => themed(`--cause-${cause.slug}`));
context.clearRect(0, 0, width, this.height);
this.#axis();
for (const row of this.rows) {
if (row.kind === "heading") this.#heading(row);
else this.#title(row);
}
context.save();
context.beginPath();
context.rect(gutter, 0, this.width, this.height);
context.clip();
for (const row of this.rows) {
if (row.kind === "density") this.#density(row);
else if (row.levels) this.#spans(row);
else if (row.kind === "memory") this.#memory(row);
}
this.#arrows();
this.#dimOtherRanges();
this.#dimOtherThreads();
if (shown.brush) this.#brush(shown.brush);
context.restore();
}
x(time) {
const [from, to] = this.shown.view;
return this.gutter + ((time - from) / (to - from)) * this.width;
}
time(x) {
const [from, to] = this.shown.view;
return from + Math.min(Math.max((x - this.gutter) / this.width, 0), 1) * (to - from);
}
levelOf(row) {
const [from, to] = this.shown.view;
return row.levels.at((to - from) / this.width);
}
rowAt(y) {
return this.rows.find((row) => y >= row.top && y < row.top + row.height);
}
#axis() {
const { context, ink } = this;
context.strokeStyle = ink.line;
context.fillStyle = ink.soft;
context.lineWidth = 1;
for (const [at, label] of timeTicks(...this.shown.view, this.width)) {
const x = Math.round(this.x(at)) + 0.5;
context.beginPath();
context.moveTo(x, TIME_AXIS_PX - 6);
context.lineTo(x, this.height);
context.stroke();
const half = context.measureText(label).width / 2;
context.fillText(label, Math.min(Math.max(x - half, this.gutter), this.right - 2 * half), TIME_AXIS_PX / 2 - 3);
}
}
#heading(row) {
const { context, ink } = this;
const { font } = context;
context.font = `600 ${font}`;
const title = fitText(context, row.title, this.right);
row.wide = context.measureText(title).width;
const own = this.timeline.threads[row.title] ?? [];
context.fillStyle = own.some((thread) => this.shown.threads.includes(thread)) ? ink.accent : ink.ink;
context.fillText(title, 0, row.top + row.height / 2 + 3);
context.font = font;
}
#title(row) {
const { context } = this;
context.fillStyle = this.ink.soft;
context.fillText(fitText(context, row.title, this.gutter - 12), 0, row.top + Math.min(row.height, 22) / 2);
}
#spans(row) {
const { context, gutter, right, ink } = this;
const { line } = row;
const spans = this.levelOf(row);
const drawn = new Map();
const [first, end] = rowsIn(spans, this.shown.view);
for (let at = first; at < end; at += 1) {
const from = this.x(spans.start[at]);
const to = this.x(spans.start[at] + spans.length[at]);
if (to < gutter - 1 || from > right) continue;
const y = row.top + spans.depth[at] * line;
const key = spans.depth[at] * 64 + spans.style[at];
if (to - from < 1 && (drawn.get(key) ?? -1) >= from) continue;
const box = Math.max(to - from, row.kind === "mark" ? 2 : 1);
drawn.set(key, from + box);
const busy = spans.busy[at] / Math.max(spans.length[at], 1);
if (spans.count[at] > 1 && box >= COARSE_PX) this.coarse = true;
context.globalAlpha = spans.count[at] > 1 ? Math.min(1, 0.3 + 0.7 * busy) : 1;
context.fillStyle = row.kind === "range" ? ink.line : this.colours[spans.style[at]];
context.fillRect(from, y, box, line - 1);
context.globalAlpha = 1;
if (box > 24 && spans.name[at] >= 0) {
const left = Math.max(from, gutter);
const name = fitText(context, this.timeline.names[spans.name[at]], Math.min(to, right) - left - 8);
context.fillStyle = row.kind === "range" ? ink.ink : ink.on;
context.fillText(name, left + 4, y + line / 2);
}
if (box > 3) {
context.fillStyle = ink.card;
context.fillRect(to - 0.5, y, 0.5, line - 1);
}
}
}
#density(row) {
const { context } = this;
const level = this.levelOf(row);
const { step, bin, weight, cause } = level;
const { causes, view } = this.shown;
const full = row.full(level);
if (step === this.timeline.bin && !this.timeline.finest && this.x(step) - this.x(0) >= COARSE_PX)
this.coarse = true;
const floor = this.#floor(row);
let current = -1;
let height = 0;
for (let at = firstAt(bin, Math.floor(view[0] / step)); at < bin.length && bin[at] * step <= view[1]; at += 1) {
if (bin[at] !== current) height = 0;
current = bin[at];
const from = Math.round(this.x(current * step));
const to = Math.max(Math.round(this.x((current + 1) * step)), from + 1);
const share = Math.min(weight[at] / full, 1 - height);
if (share > 0) {
context.globalAlpha = causes.length && !causes.includes(cause[at]) ? 0.16 : 1;
context.fillStyle = this.causeColours[cause[at]];
context.fillRect(from, floor - (height + share) * row.height, to - from, share * row.height);
}
height += share;
}
context.globalAlpha = 1;
}
#memory(row) {
const { context } = this;
const { time, level, style } = row.use;
const most = Math.max(1, ...level);
const floor = row.top + row.height;
context.fillStyle = this.colours[style];
context.globalAlpha = 0.75;
for (let at = 0; at < time.length; at += 1) {
const from = this.x(time[at]);
const to = this.x(at + 1 < time.length ? time[at + 1] : this.timeline.span);
const height = (level[at] / most) * (row.height - 2);
if (height > 0) context.fillRect(from, floor - height, Math.max(to - from, 1), height);
}
context.globalAlpha = 1;
this.#floor(row);
}
#arrows() {
const { context, ink } = this;
context.strokeStyle = ink.ink;
context.fillStyle = ink.ink;
context.lineWidth = 1;
context.globalAlpha = 0.7;
for (const { start, end, waiter, holder } of this.timeline.arrows) {
const x = Math.round(this.x(end)) + 0.5;
if (x - this.x(start) < LEAST_ARROW_PX || x < this.gutter || x > this.right) continue;
const from = this.ends.get(waiter)?.wait;
const to = this.ends.get(holder)?.work;
if (!from || !to) continue;
const down = to.top > from.top;
const [y, tip] = down ? [from.top + from.height, to.top] : [from.top, to.top + to.height];
const back = down ? -ARROW_PX : ARROW_PX;
context.beginPath();
context.moveTo(x, y);
context.lineTo(x, tip);
context.stroke();
context.beginPath();
context.moveTo(x, tip);
context.lineTo(x - ARROW_PX / 2, tip + back);
context.lineTo(x + ARROW_PX / 2, tip + back);
context.fill();
}
context.globalAlpha = 1;
}
#floor(row) {
const floor = row.top + row.height;
this.context.fillStyle = this.ink.line;
this.context.fillRect(this.gutter, floor - 1, this.width, 1);
return floor;
}
#cover(alpha, boxes) {
const { context } = this;
context.fillStyle = this.ink.card;
context.globalAlpha = alpha;
for (const [left, top, right, height] of boxes) context.fillRect(left, top, right - left, height);
context.globalAlpha = 1;
}
#dimOtherRanges() {
if (!this.shown.within) return;
const { gutter, right, height } = this;
const boxes = [];
let reached = gutter;
for (const [start, end] of this.shown.within) {
const from = Math.min(this.x(start), right);
if (from > reached) boxes.push([reached, TIME_AXIS_PX, from, height]);
reached = Math.max(reached, this.x(end));
}
if (reached < right) boxes.push([reached, TIME_AXIS_PX, right, height]);
this.#cover(0.66, boxes);
}
#dimOtherThreads() {
const { threads } = this.shown;
if (!threads.length) return;
const boxes = [];
let away = false;
for (const row of this.rows) {
const own = this.timeline.threads[row.title];
if (row.kind === "heading") away = own !== undefined && !own.some((thread) => threads.includes(thread));
else if (away) boxes.push([this.gutter, row.top, this.right, row.height]);
}
this.#cover(0.66, boxes);
}
#brush(span) {
const { context, height } = this;
const [from, to] = span.map((end) => this.x(end));
this.#cover(0.62, [
[this.gutter, TIME_AXIS_PX, from, height],
[to, TIME_AXIS_PX, this.right, height],
]);
context.fillStyle = this.ink.accent;
context.fillRect(from - 1, TIME_AXIS_PX - 6, 1.5, height);
context.fillRect(to, TIME_AXIS_PX - 6, 1.5, height);
}
}
const SHORTEST_VIEW_NS = 200;
const NAMED_CAUSES = 3;
const LEGEND_CAUSES = 16;
const GESTURE_MS = 900;
function wholeSteps(span, samplesStart, step) {
const [from, to] = span.map((end) => Math.round((end - samplesStart) / 1000 / (step || 1)) * (step || 1));
return [from, step ? Math.max(to, from + step) : to];
}
class TimelinePanel {
constructor(page, store, timeline, views) {
Object.assign(this, { page, store, timeline });
this.restricts = page.timed || !page.flame.facts.threads;
this.measured = null;
this.dragged = null;
this.moved = -Infinity;
this.within = null;
this.canvas = byId("timeline-canvas");
this.tip = document.body.appendChild(element("div", "tip"));
this.tip.hidden = true;
this.painter = new TimelinePainter(page, timeline);
watchTimeline(this);
this.#legend();
store.follow(["range"], async ({ range }) => {
const instances = range >= 0 ? await views.instances() : null;
if (range !== store.state.range) return;
this.within = instances?.intervalsOf(range);
this.draw();
});
store.follow(["span", "causes", "threads", "opportunity", "time"], () => this.draw());
new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
this.canvas.dataset.ready = "true";
}
#legend() {
const { densities, lanes, memory, styles } = this.timeline;
const causes = heaviestCauses(densities).slice(0, LEGEND_CAUSES);
const kinds = causes.map((cause) => [`c-${this.page.causes[cause].slug}`, this.page.causes[cause].key]);
const used = (chosen) => {
const labels = new Map();
for (const style of new Set(chosen)) {
const { level, label } = styles[style];
labels.set(`l-${level}`, [...(labels.get(`l-${level}`) ?? []), label]);
}
return [...labels].map(([colour, names]) => [colour, names.join(" · ")]);
};
const lanesOf = (wanted) => lanes.filter(({ kind }) => wanted.includes(kind)).flatMap(({ style }) => style);
this.#legendOf("CPU time", kinds);
this.#legendOf("Waits", used(lanesOf(["wait"])));
this.#legendOf("CUDA calls", used(lanesOf(["call"])));
this.#legendOf("GPU", used(lanesOf(GPU_KINDS)));
this.#legendOf("Marks", used(lanesOf(["mark"])));
this.#legendOf("Memory", used(memory.map(({ style }) => style)));
}
#legendOf(title, entries) {
if (!entries.length) return;
const line = byId("timeline-legend").appendChild(element("p", "legend"));
line.append(element("b", "legend-title", title));
for (const [colour, text] of entries) line.append(swatchEntry("legend-entry", colour, element("span", "", text)));
}
get span() {
if (!this.restricts) return this.measured;
const { span } = this.store.state;
return span ? span.map((end) => end * 1000 + this.timeline.samplesStart) : null;
}
set span(span) {
if (!this.restricts) {
this.measured = span;
this.draw();
return;
}
this.store.set({ span: span ? wholeSteps(span, this.timeline.samplesStart, this.page.step) : null });
}
get view() {
const { time } = this.store.state;
const { span } = this.timeline;
if (!time) return [0, span];
const [from, to] = time.map((end) => Math.min(Math.max(end * 1000, 0), span));
return to - from >= Math.min(SHORTEST_VIEW_NS, span) ? [from, to] : [0, span];
}
draw() {
const { view, within } = this;
const { threads, causes: chosen, opportunity } = this.store.state;
const causes = chosen.length || opportunity < 0 ? chosen : this.page.opportunities[opportunity].causes;
this.painter.draw(this.canvas, { view, threads, causes, within, brush: this.dragged ?? this.span });
this.#summary();
this.#more();
}
#more() {
const { before, recording } = this.timeline;
const place = byId("timeline-more");
place.hidden = !this.painter.coarse || before === null;
if (place.hidden) return;
const [after, until] = this.view.map((end) => `${+((before + end) / 1e9).toFixed(6)}s`);
byId("timeline-command").textContent = `pinprof report ${recording} --after ${after} --until ${until}`;
}
#summary() {
const { span } = this;
const [from, to] = this.view;
const whole = to - from >= this.timeline.span;
const shown = `${formatNs(to - from)}${whole ? "" : ` of ${formatNs(this.timeline.span)}`}`;
byId("timeline-span").textContent = span ? `selected ${formatNs(span[1] - span[0])}${this.#leading(span)}` : shown;
byId("timeline-whole").disabled = whole;
byId("timeline-zoom").disabled = !span;
byId("timeline-clear").disabled = !span;
}
#leading(span) {
if (this.restricts) return "";
const densities = this.painter.rows.filter(({ kind }) => kind === "density").map(({ levels }) => levels.at(0));
const leading = causesIn(densities, span).slice(0, NAMED_CAUSES);
const parts = leading.map(([cause, share]) => `${this.page.causes[cause].key} ${share}`);
return parts.length ? `: ${parts.join(", ")} of the sampled time` : "";
}
brush(span) {
this.tip.hidden = true;
this.dragged = span;
this.draw();
}
stretch(part) {
const [from, to] = this.view;
const [start, end] = this.span ?? [(from + to) / 2, (from + to) / 2];
const way = Math.sign(part) * Math.max(Math.abs(part) * (to - from), this.page.step * 1000);
const moved = Math.min(Math.max(end + way, 0), this.timeline.span);
this.span = [Math.min(start, moved), Math.max(start, moved)];
}
show(from, to, gesture = true) {
const { span } = this.timeline;
const length = Math.min(Math.max(to - from, SHORTEST_VIEW_NS), span);
const start = Math.min(Math.max(from, 0), span - length);
const merge = gesture && performance.now() - this.moved < GESTURE_MS && this.last === this.store.state;
this.moved = gesture ? performance.now() : -Infinity;
const time = length < span ? [start, start + length].map((end) => +(end / 1000).toFixed(3)) : null;
this.store.set({ time }, { merge });
this.last = this.store.state;
}
zoom(factor, around = (this.view[0] + this.view[1]) / 2) {
const [from, to] = this.view;
this.show(around - (around - from) * factor, around + (to - around) * factor);
}
pan(part) {
const [from, to] = this.view;
const way = Math.min(Math.max(part * (to - from), -from), this.timeline.span - to);
this.show(from + way, to + way);
}
zoomToHit(x, y) {
const hit = hitAt(this.painter, x, y);
if (hit) this.show(hit.start - hit.length * 0.1, hit.start + hit.length * 1.1);
}
threadsAt(x, y) {
const row = this.painter.rowAt(y);
if (row?.kind !== "heading" || this.page.threads.length < 2) return undefined;
return x < Math.max(this.painter.gutter, row.wide ?? 0) ? this.timeline.threads[row.title] : undefined;
}
#words(x, y) {
return wordsOf(this.page, this.timeline, hitAt(this.painter, x, y));
}
detail(x, y) {
byId("timeline-detail").textContent = this.#words(x, y).join(" · ");
}
hover(x, y, event) {
this.canvas.style.cursor = this.threadsAt(x, y) === undefined ? "" : "pointer";
const [title, ...lines] = this.#words(x, y);
this.tip.hidden = !title;
if (title) showTip(this.tip, event, title, ...lines.map((text) => element("p", "", text)));
}
}
if (typeof document === "undefined") serve();
else startPage(readJson("page-data"));
function startPage(page) {
const store = new Store({ causes: page.causes.map((cause) => cause.key) }, sizesOf(page));
const chart = byId("chart") ? new Chart(page, () => views.measured()) : null;
const flame = byId("flame") ? new FlamePanel(page, store, scriptText()) : null;
const plots = new Plots(page.plots);
const drawn = [];
const redraw = () => {
flame?.recolour();
plots.recolour();
for (const panel of drawn) panel.draw();
chart?.draw();
};
startFitting();
startFramed();
startTheme(byId("theme"), redraw);
startPrinting(redraw);
startEvents(store);
startCauses(store);
startOpportunities(page, store);
startLines(store);
startSections();
startHints(page);
startCopying();
flame?.start();
new FilterStrip(page, store);
const views = new FilteredViews(page, store, { flame, chart, plots });
startDrawings(page, store, views, drawn);
}
async function startDrawings(page, store, views, drawn) {
if (!byId("drawings")) return;
const { timeline, field } = JSON.parse(await inflatedText("drawings"));
if (timeline) drawn.push(new TimelinePanel(page, store, timeline, views));
if (field) drawn.push(new FieldPanel(field, store, views));
if (field?.blocks) drawn.push(new BlocksPanel(field));
}
function startOpportunities(page, store) {
const buttons = [...document.querySelectorAll("[data-opportunity]")];
for (const button of buttons) {
const opportunity = Number(button.dataset.opportunity);
const { event } = page.opportunities[opportunity];
button.addEventListener("click", () => {
if (store.state.opportunity === opportunity) store.clear(["opportunity"]);
else store.set({ opportunity, event, zoom: [], view: null, upper: [] });
});
}
store.follow(["opportunity"], ({ opportunity }) => {
for (const button of buttons) {
const chosen = Number(button.dataset.opportunity) === opportunity;
button.setAttribute("aria-pressed", String(chosen));
button.closest(".gain").classList.toggle("chosen", chosen);
}
});
}
function startHints(page) {
const tip = byId("hint");
document.addEventListener("pointermove", (event) => {
const segment = event.target.closest?.("[data-cause]");
tip.hidden = !segment;
if (!segment) return;
const cause = page.causes[Number(segment.dataset.cause)];
const remedy = cause.remedy ? [element("p", "remedy", cause.remedy)] : [];
showTip(tip, event, segment.dataset.title, element("p", "", cause.meaning), ...remedy);
});
}
};
