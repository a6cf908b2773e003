// The captures of a fleet: columns in, a bounded number of rows at a time out. Text never becomes markup.

import { byId, element } from "../core/dom.js";
import { formatNs } from "../core/format.js";

const STEP = 100;

const ORDERS = {
  far: (data) => data.ratio.map((ratio, row) => (data.bad[row] ? -1e9 : ratio ? -Math.abs(Math.log(ratio)) : 0)),
  work: (data) => data.work.map((ns) => -ns),
  path: (data) => data.path,
  started: (data) => data.started,
};

export class MemberTable {
  constructor(data) {
    this.data = data;
    this.text = data.path.map((path, row) => this.words(path, row));
    this.shown = STEP;
    this.rows = [];
  }

  /** What is searched in a row: name, program, facts and causes, in lower case. */
  words(path, row) {
    const { values, program, facts, causes } = this.data;
    const named = [path, values[program[row]], ...facts[row].map((fact) => values[fact])];
    return [...named, ...causes[row].map(([cause]) => values[cause])].join("\n").toLowerCase();
  }

  start() {
    byId("member-tools").hidden = false;
    byId("member-search").addEventListener("input", () => this.find());
    byId("member-order").addEventListener("change", () => this.find());
    byId("member-next").addEventListener("click", () => {
      this.shown += STEP;
      this.draw();
    });
    this.find();
  }

  /** The captures that have a fact, such as `driver 570.86.10`. */
  showOnly(fact) {
    byId("member-search").value = fact;
    this.find();
    byId("captures").scrollIntoView();
  }

  find() {
    const wanted = byId("member-search").value.trim().toLowerCase();
    const key = ORDERS[byId("member-order").value](this.data);
    this.rows = [];
    for (let row = 0; row < this.text.length; row += 1) if (this.text[row].includes(wanted)) this.rows.push(row);
    this.rows.sort((one, other) => (key[one] < key[other] ? -1 : key[one] > key[other] ? 1 : one - other));
    this.shown = STEP;
    this.draw();
  }

  draw() {
    const part = this.rows.slice(0, this.shown);
    byId("members").replaceChildren(...part.map((row) => this.row(row)));
    const left = this.rows.length - part.length;
    byId("member-count").textContent =
      `${this.rows.length.toLocaleString("en")} of ${this.text.length.toLocaleString("en")}`;
    byId("member-next").hidden = !left;
    byId("member-next").textContent = `Show more (${left.toLocaleString("en")} left)`;
  }

  row(row) {
    const data = this.data;
    const line = element("tr");
    const name = element("th");
    name.scope = "row";
    const path = element("bdi", "", data.path[row]);
    if (data.page[row]) {
      const link = element("a");
      link.href = data.page[row];
      link.append(path);
      name.append(link);
    } else name.append(path);
    const facts = data.facts[row].map((fact) => data.values[fact]).slice(0, 8);
    const about = [data.values[data.program[row]], data.started[row].replace("T", " "), ...facts].filter(Boolean);
    name.append(element("span", "faint small was", about.join(" · ")));
    const causes = element("td", "member-causes");
    for (const [cause, slug, share] of data.causes[row]) {
      const entry = element("span", "member-cause");
      entry.append(
        element("span", slug ? `swatch c-${slug}` : "swatch"),
        ` ${data.values[cause]} ${Math.round(100 * share)} %`,
      );
      causes.append(entry);
    }
    const ratio = data.ratio[row];
    line.append(
      name,
      element("td", "num", data.work[row] ? formatNs(data.work[row]) : "–"),
      element("td", "num", ratio ? `${ratio.toFixed(2)} ×` : "–"),
      causes,
      element("td", data.bad[row] ? "why bad" : "why", data.values[data.answer[row]]),
    );
    return line;
  }
}
