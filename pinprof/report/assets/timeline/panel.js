// The recording over time: a lane per kind of work and place, zoom and pan, and a brush that restricts all other views.

import { byId, element, swatchEntry } from "../core/dom.js";
import { formatNs } from "../core/format.js";
import { showTip } from "../core/tooltip.js";
import { watchTimeline } from "./gestures.js";
import { causesIn, heaviestCauses, hitAt, wordsOf } from "./hits.js";
import { TimelinePainter } from "./painter.js";
import { GPU_KINDS } from "./rows.js";

const SHORTEST_VIEW_NS = 200;
const NAMED_CAUSES = 3;
const LEGEND_CAUSES = 16;
const GESTURE_MS = 900;

/** A span in ns since the timeline's start as one in µs since the first sample: whole steps where samples lie in such. */
export function wholeSteps(span, samplesStart, step) {
  const [from, to] = span.map((end) => Math.round((end - samplesStart) / 1000 / (step || 1)) * (step || 1));
  return [from, step ? Math.max(to, from + step) : to];
}

export class TimelinePanel {
  /**
   * `timeline` is what report/drawing.py packed; the brush is `span` of the store's state, the zoom `time`. `views`
   * has the single ranges.
   */
  constructor(page, store, timeline, views) {
    Object.assign(this, { page, store, timeline });
    // A page whose samples lost their times cannot be restricted: there the brush only measures.
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

  // What colours mean, by the kind of lane: one colour may stand for different things in different lanes.
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

  /** The brushed span in nanoseconds since the timeline's start, or null. */
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

  /** What is shown, in nanoseconds since the timeline's start. */
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
    // Lanes hold no stacks: of an opportunity they show the causes.
    const causes = chosen.length || opportunity < 0 ? chosen : this.page.opportunities[opportunity].causes;
    this.painter.draw(this.canvas, { view, threads, causes, within, brush: this.dragged ?? this.span });
    this.#summary();
    this.#more();
  }

  // Which command shows what the page has no more of: where events or steps that it has joined are wide on the screen.
  #more() {
    const { before, recording } = this.timeline;
    const place = byId("timeline-more");
    place.hidden = !this.painter.coarse || before === null;
    if (place.hidden) return;
    const [after, until] = this.view.map((end) => `${+((before + end) / 1e9).toFixed(6)}s`);
    byId("timeline-command").textContent = `pinprof report ${recording} --after ${after} --until ${until}`;
  }

  // What is shown and what is selected, in words.
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

  // Where the page follows, its own bar of causes says what is selected.
  #leading(span) {
    if (this.restricts) return "";
    const densities = this.painter.rows.filter(({ kind }) => kind === "density").map(({ levels }) => levels.at(0));
    const leading = causesIn(densities, span).slice(0, NAMED_CAUSES);
    const parts = leading.map(([cause, share]) => `${this.page.causes[cause].key} ${share}`);
    return parts.length ? `: ${parts.join(", ")} of the sampled time` : "";
  }

  /** Show what is being brushed, before it restricts anything. */
  brush(span) {
    this.tip.hidden = true;
    this.dragged = span;
    this.draw();
  }

  /** Move the brush's end by a part of the view; without a brush, begin one in the middle. */
  stretch(part) {
    const [from, to] = this.view;
    const [start, end] = this.span ?? [(from + to) / 2, (from + to) / 2];
    const way = Math.sign(part) * Math.max(Math.abs(part) * (to - from), this.page.step * 1000);
    const moved = Math.min(Math.max(end + way, 0), this.timeline.span);
    this.span = [Math.min(start, moved), Math.max(start, moved)];
  }

  /** Show from one instant to another, as far as there is anything; steps of one gesture are undone as one. */
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

  /** The threads whose heading is at a point, several of a pool; undefined for none. */
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
