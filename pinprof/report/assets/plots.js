// Plots that stand by themselves: every [data-plot] shows the figure of that name, in the colours of the theme.

import { plotLook, startPlotly, whenSeen } from "./plotscript.js";
import { themed } from "./theme.js";

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

  recolour() {
    for (const host of this.hosts) if (host.dataset.ready) this.#draw(host);
  }

  #draw(host) {
    const figure = this.figures[host.dataset.plot];
    const line = themed("--line");
    const data = figure.data.map((trace) => {
      if (trace.meta === "limit") return { ...trace, line: { ...trace.line, color: themed("--soft") } };
      const colour = themed(`--level-${trace.meta}`);
      const drawn = trace.line ? { line: { ...trace.line, color: colour } } : {};
      return { ...trace, ...drawn, marker: { ...trace.marker, color: colour, line: { width: trace.marker.symbol.endsWith("-open") ? 2 : 1, color: trace.marker.symbol.endsWith("-open") ? colour : themed("--card") } } };
    });
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line };
    const narrow = host.clientWidth <= 640;
    const layout = {
      ...figure.layout,
      ...plotLook(themed),
      xaxis: { ...figure.layout.xaxis, ...axis },
      yaxis: { ...figure.layout.yaxis, ...axis },
      legend: { ...figure.layout.legend, ...(narrow ? { orientation: "h", x: 0, y: -0.22, yanchor: "top" } : {}) },
      height: figure.layout.height + (narrow ? 90 : 0),
    };
    if (narrow) layout.xaxis.nticks = 4;
    window.Plotly.react(host, data, layout, { displayModeBar: false, responsive: true }).then(() => {
      host.dataset.ready = "true";
    });
  }
}
