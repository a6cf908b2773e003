// One store, and every view follows it: asks for the weights of what passes the filters, and has each view show them.
// What stands on the page at first is the whole recording; it comes back when the last filter is taken back.

import { byId } from "../core/dom.js";
import { differs, FILTERS } from "../core/store.js";
import { ActivityView } from "../tables/activity.js";
import { CausesView } from "../tables/causes.js";
import { RangesView, rangeRows } from "../tables/ranges.js";
import { Instances } from "./instances.js";
import { Patches } from "./overrides.js";

export class Linked {
  /** `flame` and `chart` are null where the page has none. */
  constructor(page, store, { flame, chart, plots }) {
    Object.assign(this, { page, store, flame, chart });
    this.patches = new Patches();
    this.causes = new CausesView(page, this.patches);
    this.ranges = new RangesView(page, this.patches);
    this.activity = new ActivityView(page, this.patches, plots);
    this.limits = [...document.querySelectorAll("[data-limit]")];
    document.addEventListener("click", (event) => {
      const name = event.target.closest?.("[data-range-filter]");
      if (!name) return;
      const range = Number(name.dataset.rangeFilter);
      store.set({ range: store.state.range === range ? -1 : range });
    });
    store.subscribe((state, before) => {
      if (["event", ...FILTERS].some((key) => state[key] !== before[key])) this.update();
    });
    this.update();
  }

  /** Rows of single calls and copies, unpacked when first asked for; null where the page has none. */
  instances() {
    if (!this.page.instances) return Promise.resolve(null);
    this.loading ??= Instances.load(this.page.instances);
    return this.loading;
  }

  /** Whether the reader filters by anything. */
  get active() {
    return FILTERS.some((key) => differs(this.store.state, key));
  }

  async update() {
    const { state } = this.store;
    this.asked = state;
    this.#limits(state);
    document.documentElement.dataset.linked = "busy";
    const [found, instances] = this.active ? await Promise.all([this.#survey(state), this.instances()]) : [null, null];
    if (this.asked !== state) return;
    this.patches.restore();
    const rows = rangeRows(this.page, state, found, instances);
    if (found) this.causes.show(state, found);
    if (this.active && found) this.ranges.show(state, rows);
    else if (this.active)
      this.ranges.show(
        state,
        rows.map((row) => ({ ...row, weights: false })),
      );
    if (instances && ["range", "span", "threads", "causes"].some((key) => differs(state, key)))
      this.activity.show(state, instances);
    else this.activity.plots.filter("transfers", null);
    this.chosen(state);
    this.rows = rows;
    this.chart?.show(state, rows);
    this.measured();
    document.documentElement.dataset.linked = "ready";
  }

  /** The full table in the chart's measure; as it came, it shows means. */
  measured() {
    if (!this.rows || (!this.active && (this.chart?.measure ?? "mean") === "mean" && !this.remeasured)) return;
    this.remeasured = true;
    this.ranges.matrix(this.store.state, this.rows, this.chart?.measure ?? "mean");
  }

  // The chosen range stands out in every table of ranges; those inside it stay, the others step back.
  chosen({ range }) {
    const { ranges } = this.page;
    const within = new Set();
    for (
      let at = range;
      range >= 0 && at < ranges.length && (at === range || ranges[at].depth > ranges[range].depth);
      at += 1
    )
      within.add(at);
    for (const line of document.querySelectorAll("tr[data-range]")) {
      const number = Number(line.dataset.range);
      line.classList.toggle("chosen", number === range);
      line.classList.toggle("away", range >= 0 && !within.has(number));
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
