// The recording over time: a lane per kind of work and place, zoom and pan, and a brush that restricts all other views.

import { byId, element } from "../core/dom.js";
import { formatBytes, formatCount, formatNs, formatShare, formatWeight } from "../core/format.js";
import { themed } from "../core/theme.js";
import { fitCanvas, fitText, timeTicks, unpackSpans } from "./spans.js";

const TIME_AXIS_PX = 26;
const LANE_PX = { range: 20, mark: 14, wait: 14, call: 20, kernel: 18, copy: 18, memset: 14, migration: 18, fault: 14 };
const LANE_GAP_PX = 5;
const HEADING_PX = 30;
const DENSITY_PX = 40;
const MEMORY_PX = 40;
const GRIP_PX = 4;
const REACH_PX = 3;
const SHORTEST_VIEW_NS = 200;
const NAMED_CAUSES = 3;
const GESTURE_MS = 900;

export class TimelinePanel {
  /**
   * `timeline` is what report/drawing.py packed; the brush is `span` of the store's state, the zoom `time`. `linked`
   * has the single ranges.
   */
  constructor(page, store, timeline, linked) {
    Object.assign(this, { page, store, timeline });
    // A page whose samples lost their times cannot be restricted: there the brush only measures.
    this.linked = page.timed || !page.flame.facts.threads;
    this.own = null;
    this.moved = -Infinity;
    this.within = null;
    this.canvas = byId("timeline-canvas");
    this.tip = document.body.appendChild(element("div", "tip"));
    this.tip.hidden = true;
    this.rows = this.#layOut();
    this.#watch();
    this.#legend();
    const findRange = async ({ range }) => {
      const instances = range >= 0 ? await linked.instances() : null;
      if (range !== store.state.range) return;
      this.within = instances && instances.intervalsOf(range);
      this.draw();
    };
    store.subscribe((state, before) => {
      if (state.range !== before.range) findRange(state);
      else if (["span", "causes", "threads", "time"].some((key) => state[key] !== before[key])) this.draw();
    });
    findRange(store.state);
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
    this.draw();
    this.canvas.dataset.ready = "true";
  }

  // Rows from top to bottom: under each heading what its thread did, or its GPU.
  #layOut() {
    const { timeline } = this;
    const headings = [...new Set([...timeline.densities, ...timeline.lanes].map((part) => part.heading))];
    const isGpu = (heading) =>
      timeline.lanes.some(
        (lane) => lane.heading === heading && ["kernel", "copy", "memset", "migration", "fault"].includes(lane.kind),
      );
    const hasRanges = (heading) => timeline.lanes.some((lane) => lane.heading === heading && lane.kind === "range");
    headings.sort((one, other) => isGpu(one) - isGpu(other) || hasRanges(other) - hasRanges(one));
    const rows = [];
    let top = TIME_AXIS_PX;
    const add = (row, height) => {
      rows.push({ ...row, top, height });
      top += height + LANE_GAP_PX;
    };
    for (const heading of headings) {
      add({ kind: "heading", title: heading }, HEADING_PX - LANE_GAP_PX);
      for (const lane of timeline.lanes.filter((one) => one.heading === heading && one.kind === "range"))
        this.#addLane(add, lane);
      for (const density of timeline.densities.filter((one) => one.heading === heading)) {
        add({ kind: "density", title: density.title, density, most: this.#most(density) }, DENSITY_PX);
      }
      for (const lane of timeline.lanes.filter((one) => one.heading === heading && one.kind !== "range"))
        this.#addLane(add, lane);
    }
    if (timeline.memory.length) {
      add({ kind: "heading", title: "Memory" }, HEADING_PX - LANE_GAP_PX);
      for (const use of timeline.memory) add({ kind: "memory", title: use.title, use }, MEMORY_PX);
    }
    this.height = top;
    return rows;
  }

  #addLane(add, lane) {
    const spans = unpackSpans(lane);
    const depth = spans.depth.reduce((most, value) => Math.max(most, value), 0);
    add(
      { kind: lane.kind, title: lane.title, lane, spans, line: LANE_PX[lane.kind] },
      LANE_PX[lane.kind] * (depth + 1),
    );
  }

  // What fills a density's height: all of one processor, or the heaviest step of what is no time.
  #most(density) {
    if (this.timeline.unit === "ns") return this.timeline.bin;
    const sums = new Map();
    density.bin.forEach((bin, at) => sums.set(bin, (sums.get(bin) ?? 0) + density.weight[at]));
    return Math.max(1, ...sums.values());
  }

  #legend() {
    const host = byId("timeline-legend");
    const used = new Set(this.timeline.lanes.filter((lane) => lane.kind !== "range").flatMap((lane) => lane.style));
    for (const use of this.timeline.memory) used.add(use.style);
    const labels = new Map();
    for (const style of used) {
      const { level, label } = this.timeline.styles[style];
      labels.set(level, [...(labels.get(level) ?? []), label]);
    }
    for (const [level, told] of labels) {
      const entry = element("span", "legend-entry");
      entry.append(element("span", `swatch l-${level}`), element("span", "", told.join(" · ")));
      host.append(entry);
    }
  }

  /** The brushed span in nanoseconds since the timeline's start, or null. */
  get span() {
    const { span } = this.store.state;
    if (!this.linked) return this.own;
    return span && span.map((end) => end * 1000 + this.timeline.samplesStart);
  }

  set span(span) {
    if (!this.linked) {
      this.own = span;
      this.draw();
      return;
    }
    this.store.set({ span: span && span.map((end) => Math.round((end - this.timeline.samplesStart) / 1000)) });
  }

  /** What is shown, in nanoseconds since the timeline's start. */
  get view() {
    const { time } = this.store.state;
    if (!time) return [0, this.timeline.span];
    const [from, to] = time.map((end) => Math.min(Math.max(end * 1000, 0), this.timeline.span));
    return to - from >= Math.min(SHORTEST_VIEW_NS, this.timeline.span) ? [from, to] : [0, this.timeline.span];
  }

  draw() {
    const [context, width] = fitCanvas(this.canvas, this.height);
    if (!width) return;
    this.gutter = width < 640 ? 84 : 150;
    this.width = width - this.gutter;
    this.ink = {
      ink: themed("--ink"),
      soft: themed("--soft"),
      line: themed("--line"),
      on: themed("--on-cause"),
      card: themed("--card"),
      accent: themed("--accent"),
    };
    this.colours = this.timeline.styles.map((style) => themed(`--level-${style.level}`));
    this.causes = this.page.causes.map((cause) => themed(`--cause-${cause.slug}`));
    context.clearRect(0, 0, width, this.height);
    this.#axis(context);
    for (const row of this.rows) {
      context.fillStyle = row.kind === "heading" ? this.ink.ink : this.ink.soft;
      if (row.kind === "heading") this.#heading(context, row, width);
      else context.fillText(fitText(context, row.title, this.gutter - 12), 0, row.top + Math.min(row.height, 22) / 2);
    }
    context.save();
    context.beginPath();
    context.rect(this.gutter, 0, this.width, this.height);
    context.clip();
    for (const row of this.rows) {
      if (row.spans) this.#spans(context, row);
      else if (row.kind === "density") this.#density(context, row);
      else if (row.kind === "memory") this.#memory(context, row);
    }
    this.#dim(context);
    this.#brush(context);
    context.restore();
    this.#tell();
  }

  #heading(context, row, width) {
    const { font } = context;
    context.font = `600 ${font}`;
    const { threads } = this.store.state;
    const title = fitText(context, row.title, width);
    row.wide = context.measureText(title).width;
    if (threads.includes(this.timeline.threads[row.title])) context.fillStyle = this.ink.accent;
    context.fillText(title, 0, row.top + row.height / 2 + 3);
    context.font = font;
  }

  #x(time) {
    const [from, to] = this.view;
    return this.gutter + ((time - from) / (to - from)) * this.width;
  }

  #time(clientX) {
    const [from, to] = this.view;
    const part = (clientX - this.canvas.getBoundingClientRect().left - this.gutter) / this.width;
    return from + Math.min(Math.max(part, 0), 1) * (to - from);
  }

  #axis(context) {
    context.strokeStyle = this.ink.line;
    context.fillStyle = this.ink.soft;
    context.lineWidth = 1;
    for (const [at, label] of timeTicks(...this.view, this.width)) {
      const x = Math.round(this.#x(at)) + 0.5;
      context.beginPath();
      context.moveTo(x, TIME_AXIS_PX - 6);
      context.lineTo(x, this.height);
      context.stroke();
      const half = context.measureText(label).width / 2;
      const place = Math.min(Math.max(x - half, this.gutter), this.gutter + this.width - 2 * half);
      context.fillText(label, place, TIME_AXIS_PX / 2 - 3);
    }
  }

  // Neighbours below one pixel of one colour are drawn once.
  #spans(context, row) {
    const { spans, line } = row;
    const { names } = this.timeline;
    const right = this.gutter + this.width;
    const drawn = new Map();
    for (let at = 0; at < spans.start.length; at += 1) {
      const from = this.#x(spans.start[at]);
      const to = this.#x(spans.start[at] + spans.length[at]);
      if (to < this.gutter - 1 || from > right) continue;
      const y = row.top + spans.depth[at] * line;
      const key = spans.depth[at] * 64 + spans.style[at];
      if (to - from < 1 && (drawn.get(key) ?? -1) >= from) continue;
      const box = Math.max(to - from, row.kind === "mark" ? 2 : 1);
      drawn.set(key, from + box);
      context.globalAlpha =
        spans.count[at] > 1 ? Math.min(1, 0.3 + 0.7 * (spans.busy[at] / Math.max(spans.length[at], 1))) : 1;
      // Ranges are the ground that everything else is read against: they stay quiet.
      context.fillStyle = row.kind === "range" ? this.ink.line : this.colours[spans.style[at]];
      context.fillRect(from, y, box, line - 1);
      context.globalAlpha = 1;
      if (box > 24 && spans.name[at] >= 0) {
        const shown = Math.max(from, this.gutter);
        context.fillStyle = row.kind === "range" ? this.ink.ink : this.ink.on;
        context.fillText(
          fitText(context, names[spans.name[at]], Math.min(to, right) - shown - 8),
          shown + 4,
          y + line / 2,
        );
      }
      if (box > 3) {
        context.fillStyle = this.ink.card;
        context.fillRect(to - 0.5, y, 0.5, line - 1);
      }
    }
  }

  #density(context, row) {
    const { density, most } = row;
    const { bin } = this.timeline;
    const chosen = this.store.state.causes;
    const floor = row.top + row.height;
    context.fillStyle = this.ink.line;
    context.fillRect(this.gutter, floor - 1, this.width, 1);
    let current = -1;
    let height = 0;
    for (let at = 0; at < density.bin.length; at += 1) {
      if (density.bin[at] !== current) height = 0;
      current = density.bin[at];
      // Whole pixels: seams between steps would look like a pattern of the data.
      const from = Math.round(this.#x(current * bin));
      const to = Math.max(Math.round(this.#x((current + 1) * bin)), from + 1);
      const share = Math.min(density.weight[at] / most, 1 - height);
      if (to >= this.gutter && from <= this.gutter + this.width && share > 0) {
        context.globalAlpha = chosen.length && !chosen.includes(density.cause[at]) ? 0.16 : 1;
        context.fillStyle = this.causes[density.cause[at]];
        context.fillRect(from, floor - (height + share) * row.height, to - from, share * row.height);
      }
      height += share;
    }
    context.globalAlpha = 1;
  }

  #memory(context, row) {
    const { time, level, style } = row.use;
    const most = Math.max(1, ...level);
    const floor = row.top + row.height;
    context.fillStyle = this.colours[style];
    context.globalAlpha = 0.75;
    for (let at = 0; at < time.length; at += 1) {
      const to = at + 1 < time.length ? time[at + 1] : this.timeline.span;
      const height = (level[at] / most) * (row.height - 2);
      if (height > 0)
        context.fillRect(this.#x(time[at]), floor - height, Math.max(this.#x(to) - this.#x(time[at]), 1), height);
    }
    context.globalAlpha = 1;
    context.fillStyle = this.ink.line;
    context.fillRect(this.gutter, floor - 1, this.width, 1);
  }

  // Outside the chosen range, and beside the chosen threads.
  #dim(context) {
    const { threads } = this.store.state;
    const right = this.gutter + this.width;
    context.fillStyle = this.ink.card;
    context.globalAlpha = 0.66;
    if (this.within) {
      let reached = this.gutter;
      for (const [start, end] of this.within) {
        const from = Math.min(this.#x(start), right);
        if (from > reached) context.fillRect(reached, TIME_AXIS_PX, from - reached, this.height);
        reached = Math.max(reached, this.#x(end));
      }
      if (reached < right) context.fillRect(reached, TIME_AXIS_PX, right - reached, this.height);
    }
    let away = false;
    for (const row of threads.length ? this.rows : []) {
      if (row.kind === "heading")
        away = this.timeline.threads[row.title] !== undefined && !threads.includes(this.timeline.threads[row.title]);
      else if (away) context.fillRect(this.gutter, row.top, this.width, row.height);
    }
    context.globalAlpha = 1;
  }

  #brush(context) {
    const span = this.drag?.span ?? this.span;
    if (!span) return;
    const [from, to] = span.map((end) => this.#x(end));
    context.fillStyle = this.ink.card;
    context.globalAlpha = 0.62;
    context.fillRect(this.gutter, TIME_AXIS_PX, from - this.gutter, this.height);
    context.fillRect(to, TIME_AXIS_PX, this.gutter + this.width - to, this.height);
    context.globalAlpha = 1;
    context.fillStyle = this.ink.accent;
    context.fillRect(from - 1, TIME_AXIS_PX - 6, 1.5, this.height);
    context.fillRect(to, TIME_AXIS_PX - 6, 1.5, this.height);
  }

  // What is shown and what is selected, in words.
  #tell() {
    const { span } = this;
    const [from, to] = this.view;
    const whole = to - from >= this.timeline.span;
    // Where the page follows, its own bar of causes tells what is selected.
    const leading = span && !this.linked ? this.#leading(this.#causesIn(span)) : "";
    const text = span
      ? `selected ${formatNs(span[1] - span[0])}${leading}`
      : `${formatNs(to - from)}${whole ? "" : ` of ${formatNs(this.timeline.span)}`}`;
    byId("timeline-span").textContent = text;
    byId("timeline-whole").disabled = whole;
    byId("timeline-zoom").disabled = !span;
    byId("timeline-clear").disabled = !span;
  }

  // [cause, weight, share] of everything sampled in a span, heaviest first.
  #causesIn([from, to]) {
    const { densities, bin } = this.timeline;
    const weights = new Map();
    for (const density of densities) {
      density.bin.forEach((step, at) => {
        const covered = Math.min(to, (step + 1) * bin) - Math.max(from, step * bin);
        if (covered <= 0) return;
        weights.set(density.cause[at], (weights.get(density.cause[at]) ?? 0) + density.weight[at] * (covered / bin));
      });
    }
    const total = [...weights.values()].reduce((sum, weight) => sum + weight, 0);
    return [...weights]
      .sort((one, other) => other[1] - one[1])
      .map(([cause, weight]) => [cause, weight, formatShare(weight, total)]);
  }

  #leading(causes) {
    const told = causes.slice(0, NAMED_CAUSES).map(([cause, , share]) => `${this.page.causes[cause].key} ${share}`);
    return told.length ? `: ${told.join(", ")} of the sampled time` : "";
  }

  #watch() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      const thread = this.#threadAt(event);
      if (thread !== undefined) this.store.toggle("threads", thread);
      if (thread !== undefined || this.#at(event, "x") < this.gutter) return;
      canvas.setPointerCapture(event.pointerId);
      this.drag = {
        from: this.#time(event.clientX),
        x: event.clientX,
        span: null,
        pan: event.shiftKey ? [...this.view] : null,
      };
    });
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", (event) => this.#release(event));
    canvas.addEventListener("pointercancel", () => {
      this.drag = null;
      this.draw();
    });
    canvas.addEventListener("pointerleave", () => {
      this.tip.hidden = true;
    });
    canvas.addEventListener("dblclick", (event) => {
      const hit = this.#hit(event);
      if (hit) this.show(hit.start - hit.length * 0.1, hit.start + hit.length * 1.1);
    });
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(event.deltaY * 0.0022), this.#time(event.clientX));
        else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
          this.pan((event.deltaX || event.deltaY) / this.width);
        else return;
        event.preventDefault();
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this.#key(event));
    const press = (id, act) => byId(id).addEventListener("click", act);
    press("timeline-in", () => this.zoom(0.5));
    press("timeline-out", () => this.zoom(2));
    press("timeline-whole", () => this.show(0, this.timeline.span));
    press("timeline-zoom", () => this.show(...this.span, false));
    press("timeline-clear", () => {
      this.span = null;
    });
  }

  #move(event) {
    const { drag } = this;
    if (!drag) {
      this.#hover(event);
      return;
    }
    if (drag.pan) {
      const way = ((drag.x - event.clientX) / this.width) * (drag.pan[1] - drag.pan[0]);
      this.show(drag.pan[0] + way, drag.pan[1] + way);
      return;
    }
    if (!drag.span && Math.abs(event.clientX - drag.x) < GRIP_PX) return;
    this.tip.hidden = true;
    const at = this.#time(event.clientX);
    drag.span = [Math.min(at, drag.from), Math.max(at, drag.from)];
    this.draw();
  }

  #release(event) {
    const { drag } = this;
    this.drag = null;
    if (drag?.span) this.span = drag.span;
    else if (drag && !drag.pan) byId("timeline-detail").textContent = this.#words(this.#hit(event)).flat().join(" · ");
    this.draw();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [from, to] = this.span ?? this.view;
    const step = (this.view[1] - this.view[0]) / 20;
    const arrows = { ArrowLeft: -1, ArrowRight: 1 };
    if (arrows[event.key] && event.shiftKey) {
      const start = this.span ? from : (from + to) / 2;
      const end = this.span ? to : start;
      const moved = Math.min(Math.max(end + arrows[event.key] * step, 0), this.timeline.span);
      this.span = [Math.min(start, moved), Math.max(start, moved)];
    } else if (arrows[event.key]) this.pan(arrows[event.key] * 0.2);
    else if (event.key === "+" || event.key === "=") this.zoom(0.7);
    else if (event.key === "-") this.zoom(1 / 0.7);
    else if (event.key === "0") this.show(0, this.timeline.span);
    else if (event.key === "Enter" && this.span) this.show(...this.span);
    else if (event.key === "Escape" && this.span) this.span = null;
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Show from one instant to another, as far as there is anything; steps of one gesture are undone as one. */
  show(from, to, gesture = true) {
    const { span } = this.timeline;
    const length = Math.min(Math.max(to - from, SHORTEST_VIEW_NS), span);
    const start = Math.min(Math.max(from, 0), span - length);
    const merge = gesture && performance.now() - this.moved < GESTURE_MS && this.last === this.store.state;
    this.moved = gesture ? performance.now() : -Infinity;
    this.store.set(
      { time: length < span ? [start, start + length].map((end) => +(end / 1000).toFixed(3)) : null },
      { merge },
    );
    this.last = this.store.state;
  }

  // The thread whose heading is under the pointer; undefined for none.
  #threadAt(event) {
    const y = this.#at(event, "y");
    const row = this.rows.find((one) => one.kind === "heading" && y >= one.top && y < one.top + one.height);
    const known = row && this.page.threads.length > 1 ? this.timeline.threads[row.title] : undefined;
    return known !== undefined && this.#at(event, "x") < Math.max(this.gutter, row.wide ?? 0) ? known : undefined;
  }

  zoom(factor, around = (this.view[0] + this.view[1]) / 2) {
    const [from, to] = this.view;
    this.show(around - (around - from) * factor, around + (to - around) * factor);
  }

  pan(part) {
    const [from, to] = this.view;
    const way = part * (to - from);
    const allowed = Math.min(Math.max(way, -from), this.timeline.span - to);
    this.show(from + allowed, to + allowed);
  }

  #at(event, axis) {
    const box = this.canvas.getBoundingClientRect();
    return axis === "x" ? event.clientX - box.left : event.clientY - box.top;
  }

  // The interval under the pointer: the one that begins last, within a few pixels.
  #hit(event) {
    if (this.#at(event, "x") < this.gutter) return null;
    const y = this.#at(event, "y");
    const row = this.rows.find((one) => y >= one.top && y < one.top + one.height);
    const time = this.#time(event.clientX);
    if (row?.kind === "density")
      return { row, start: Math.floor(time / this.timeline.bin) * this.timeline.bin, length: this.timeline.bin };
    if (!row?.spans) return null;
    const reach = ((this.view[1] - this.view[0]) / this.width) * REACH_PX;
    const depth = Math.floor((y - row.top) / row.line);
    const { spans } = row;
    let found = -1;
    for (let at = 0; at < spans.start.length && spans.start[at] <= time + reach; at += 1) {
      if (spans.depth[at] === depth && spans.start[at] + spans.length[at] >= time - reach) found = at;
    }
    return found < 0 ? null : { row, at: found, start: spans.start[found], length: spans.length[found] };
  }

  // [title, line, …] of what a pointer hit; empty for nothing.
  #words(hit) {
    if (!hit) return [];
    const { row } = hit;
    const since = `at ${formatNs(hit.start)}`;
    if (row.kind === "density") {
      const lines = [];
      row.density.bin.forEach((bin, at) => {
        if (bin * this.timeline.bin === hit.start)
          lines.push([row.density.weight[at], this.page.causes[row.density.cause[at]].key]);
      });
      lines.sort((one, other) => other[0] - one[0]);
      return [
        `${formatNs(hit.length)} on CPU`,
        since,
        ...lines.slice(0, 6).map(([weight, key]) => `${key} ${formatWeight(weight, this.timeline.unit)}`),
      ];
    }
    const { spans } = row;
    const many = spans.count[hit.at];
    const label = this.timeline.styles[spans.style[hit.at]].label;
    const name = spans.name[hit.at] >= 0 ? this.timeline.names[spans.name[hit.at]] : label;
    const words = [
      many > 1 ? `${formatCount(many)} × ${label}` : name,
      row.kind === "mark" ? since : `${formatNs(hit.length)}, ${since}`,
    ];
    const size = spans.size[hit.at];
    if (row.kind === "fault") words.push(`${formatCount(size)} faults`);
    else if (size) words.push(`${formatBytes(size)}, ${(size / Math.max(spans.busy[hit.at], 1)).toFixed(1)} GB/s`);
    if (many > 1) words.push(`together ${formatNs(spans.busy[hit.at])}; zoomed out, short ones are drawn as one`);
    return words;
  }

  #hover(event) {
    this.canvas.style.cursor = this.#threadAt(event) === undefined ? "" : "pointer";
    const words = this.#words(this.#hit(event));
    this.tip.hidden = !words.length;
    if (!words.length) return;
    this.tip.replaceChildren(element("strong", "", words[0]), ...words.slice(1).map((text) => element("p", "", text)));
    const width = this.tip.getBoundingClientRect().width;
    this.tip.style.left = `${Math.max(8, Math.min(event.clientX + 12, document.documentElement.clientWidth - width - 8))}px`;
    this.tip.style.top = `${event.clientY + 18}px`;
  }
}
