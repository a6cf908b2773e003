// The ranges × causes chart: plotly is unpacked and started only when the plot scrolls into view.

import { plotLook, startPlotly, whenSeen } from "./plotscript.js";
import { themed } from "./theme.js";

export class Chart {
  /** `figures` are plotly figures by event and measure; `causes` give the colours. */
  constructor(page) {
    this.page = page;
    this.host = document.getElementById("chart");
    this.buttons = [...document.querySelectorAll("[data-measure]")];
    this.measure = "mean";
    for (const button of this.buttons) {
      button.addEventListener("click", () => {
        this.measure = button.dataset.measure;
        this.draw();
      });
    }
    whenSeen(this.host, async () => {
      await startPlotly(this.host.dataset.source);
      this.draw();
    });
  }

  show(event) {
    this.event = event;
    this.draw();
  }

  draw() {
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.measure === this.measure));
    const figure = this.page.figures[this.event]?.[this.measure];
    this.host.parentElement.hidden = !figure;
    if (!figure || !window.Plotly) return;
    const line = themed("--line");
    const data = figure.data.map((trace) => ({
      ...trace,
      marker: { color: themed(`--cause-${trace.meta}`), line: { width: 1, color: themed("--card") } },
    }));
    const layout = {
      ...figure.layout,
      ...plotLook(themed),
      xaxis: { ...figure.layout.xaxis, gridcolor: line, zerolinecolor: line },
      showlegend: this.host.clientWidth > 640,
    };
    const config = { displayModeBar: false, responsive: true };
    window.Plotly.react(this.host, data, layout, config).then(() => {
      this.host.dataset.ready = `${this.event} ${this.measure}`;
    });
  }
}
