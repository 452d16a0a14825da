// A line over time as SVG, with the same numbers as a table for those who do not see it.

import { h } from "./dom.js";
import { count, time } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 640;
const HEIGHT = 120;
const LEFT = 4;
const TOP = 8;
// Between looks that are further apart nobody looked, and nothing is drawn.
const GAP_MS = 60_000;
const ROWS_MAX = 60;

function s(tag, properties, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// A chart of points {at, value} that is drawn again with `draw`.
export class Chart {
  constructor(title, shown = count) {
    this.title = title;
    this.shown = shown;
    this.line = s("path", { class: "line", fill: "none" });
    this.dot = s("circle", { class: "dot", r: 3 });
    this.svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", preserveAspectRatio: "none" }, this.line, this.dot);
    this.told = h("figcaption", {});
    this.rows = h("tbody", {});
    this.table = h("details", {}, h("summary", {}, `${title} as a table`),
      h("div", { class: "scrolled", tabindex: "0", role: "region", "aria-label": `${title} as a table` },
        h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Time (UTC)"), h("th", { scope: "col" }, title))), this.rows)));
    this.table.addEventListener("toggle", () => this.fill());
    this.element = h("figure", { class: "chart" }, this.told, this.svg, this.table);
    this.draw([]);
  }

  draw(points) {
    this.points = points;
    const known = points.filter(({ value }) => value !== null);
    this.svg.toggleAttribute("hidden", known.length < 2);
    this.table.hidden = known.length === 0;
    const last = known.at(-1);
    const words = this.words(known);
    this.told.textContent = words;
    this.svg.setAttribute("aria-label", words);
    if (known.length >= 2) {
      const from = known[0].at;
      const span = Math.max(last.at - from, 1);
      const most = Math.max(...known.map(({ value }) => value), 1e-9);
      const x = (at) => LEFT + ((at - from) / span) * (WIDTH - 2 * LEFT);
      const y = (value) => HEIGHT - TOP - (value / most) * (HEIGHT - 2 * TOP);
      this.line.setAttribute("d", path(points, x, y));
      this.dot.setAttribute("cx", x(last.at));
      this.dot.setAttribute("cy", y(last.value));
    }
    if (this.table.open) this.fill();
  }

  words(known) {
    if (known.length === 0) return `${this.title}: not known yet; it is noted while this page is open`;
    const values = known.map(({ value }) => value);
    const span = Math.round((known.at(-1).at - known[0].at) / 1000);
    return `${this.title}: ${this.shown(values.at(-1))} now, from ${this.shown(Math.min(...values))} to `
      + `${this.shown(Math.max(...values))} in the last ${span < 120 ? `${span} s` : `${Math.round(span / 60)} min`} that this page has seen`;
  }

  fill() {
    if (!this.table.open) return;
    const rows = this.points.slice(-ROWS_MAX).reverse();
    this.rows.replaceChildren(...rows.map(({ at, value }) =>
      h("tr", {}, h("td", {}, time(at).slice(0, 19)), h("td", {}, value === null ? "not known" : this.shown(value)))));
  }
}

function path(points, x, y) {
  let isDown = false;
  let before = 0;
  return points.map(({ at, value }) => {
    if (value === null) {
      isDown = false;
      return "";
    }
    const command = isDown && at - before < GAP_MS ? "L" : "M";
    isDown = true;
    before = at;
    return `${command}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
  }).join("");
}
