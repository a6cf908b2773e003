// The ranges × causes chart: horizontal stacked bars, one per range in the order of the table, one trace per cause.
// plotly is unpacked and started only when the plot scrolls into view.

import { formatShare, formatWeight } from "../core/format.js";
import { themed } from "../core/theme.js";
import { plotStyle, startPlotly, whenSeen } from "./plotly.js";

const ROW_PX = 34;
const FRAME_PX = 64;
const LEGEND_ROWS = 9;
// Causes below this part of every range would be slivers; they are in the table.
const SMALLEST_SHARE = 0.002;
const AXIS_UNITS = { ns: [1e6, "ms"], bytes: [2 ** 20, "MiB"] };

export class Chart {
  /** `changed` is called with the measure when the reader chooses another. */
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

  /** `rows` as `rangeRows` gives them. */
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
      // Names from the left, so that nested ranges stand in under the one around them: tick labels end at the axis.
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
