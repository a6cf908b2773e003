// One store, and every view follows it: asks for the weights of what passes the filters, and has each view show them.
// What stands on the page at first is the whole recording; it comes back when the last filter is taken back.

import { differs, FILTERS } from "../core/store.js";
import { ActivityView } from "../tables/activity.js";
import { CausesView } from "../tables/causes.js";
import { Overrides } from "../tables/overrides.js";
import { RangesView, rangeRows } from "../tables/ranges.js";
import { Instances } from "./instances.js";

// Filters that tables of single calls, copies and migrations follow.
const OF_INSTANCES = ["range", "span", "threads", "causes"];

export class FilteredViews {
  /** `flame` and `chart` are null where the page has none. */
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

  /** The full table in the chart's measure; as it came, it shows means. */
  measured() {
    const measure = this.chart?.measure ?? "mean";
    if (!this.rows || (!this.active && measure === "mean" && !this.remeasured)) return;
    this.remeasured = true;
    this.ranges.matrix(this.store.state, this.rows, measure);
  }

  // The chosen range stands out in every table of ranges; those inside it stay, the others step back.
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
