// Plots that stand by themselves: every [data-plot] shows the figure of that name, in the colours of the theme.

import { formatBytes, formatCount } from "../core/format.js";
import { themed } from "../core/theme.js";
import { plotStyle, startPlotly, whenSeen } from "./plotly.js";

// As report/plots.py sizes its marks.
const SMALLEST_PX = 11;
const LARGEST_PX = 26;
// A legend whose names are long stands below its plot, else it takes the plot's place.
const LEGEND_SHARE = 0.25;
const LETTER_PX = 6.8;
const KEY_PX = 60;

export class Plots {
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

  /** Show of a figure only the copies that pass the filters; `instances` is null for all. */
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

// Without its middle where it has more letters than that.
function shortened(name = "", letters) {
  const ends = Math.floor(letters / 2) - 1;
  return name.length > letters ? `${name.slice(0, ends)}…${name.slice(-ends)}` : name;
}

// The figure with other points; traces without any left stay in the legend.
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
