// What is known about a node: the tooltip, the line under the graph, and the menu of what can be done with it.

import { element, makeButton } from "../core/dom.js";
import { formatShare, formatWeight } from "../core/format.js";
import { ACTIONS, runAction } from "./actions.js";
import { changeFacts } from "./change.js";

const ON_MODULES = ["y", "Y"];

export class Details {
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

  /** [term, text] of a node, most asked for first. */
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

// Near a point, inside the window.
function place(box, at, gap) {
  const size = box.getBoundingClientRect();
  const left = Math.min(at.clientX + gap, document.documentElement.clientWidth - size.width - 8);
  const below = at.clientY + gap + 4 + size.height < window.innerHeight;
  box.style.left = `${Math.max(8, left)}px`;
  box.style.top = `${Math.max(8, below ? at.clientY + gap + 4 : at.clientY - size.height - gap + 2)}px`;
}
