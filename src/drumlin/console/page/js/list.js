// A list of any length, of which only the rows in sight exist: their cells are filled again as it moves.

import { h } from "./dom.js";
import { visible } from "./words.js";

const ROW = 30;
const MORE = 8;

// Columns: {title, width, isNumber, text(row), by(row), href(row), open(row), isBad(row)}.
export class List {
  constructor({ label, columns, nothing, sortedBy = null, isDescending = false }) {
    this.columns = columns;
    this.rows = [];
    this.shown = [];
    this.pool = [];
    this.chosen = -1;
    this.first = 0;
    this.test = null;
    this.sortedBy = sortedBy;
    this.isDescending = isDescending;
    this.frame = 0;
    const grid = columns.map((each) => each.width ?? "minmax(0,1fr)").join(" ");
    this.heads = columns.map((column, index) => this.headOf(column, index));
    this.headRow = h("div", { role: "row", class: "row heads", "aria-rowindex": 1 }, this.heads);
    this.headRow.style.gridTemplateColumns = grid;
    this.grid = grid;
    this.height = h("div", { role: "presentation" });
    this.body = h("div", { role: "presentation", class: "rows" });
    this.scroller = h("div", { class: "scroller", tabindex: "0", role: "rowgroup",
      onscroll: () => this.drawSoon() }, this.height, this.body);
    this.nothing = h("p", { class: "nothing" }, nothing ?? "nothing");
    this.table = h("div", { role: "table", "aria-label": label },
      h("div", { role: "rowgroup" }, this.headRow), this.scroller);
    this.element = h("div", { class: "list" }, this.table, this.nothing);
    this.watched = new ResizeObserver(() => this.drawSoon());
    this.watched.observe(this.scroller);
    this.arrange();
  }

  headOf(column, index) {
    const button = h("button", { type: "button", onclick: () => this.sort(index) }, column.title);
    return h("div", { role: "columnheader", class: column.isNumber ? "number" : null }, button);
  }

  set(rows) {
    this.rows = rows;
    this.arrange();
  }

  filter(test) {
    this.test = test;
    this.scroller.scrollTop = 0;
    this.chosen = -1;
    this.arrange();
  }

  sort(index) {
    this.isDescending = this.sortedBy === index ? !this.isDescending : this.columns[index].isNumber === true;
    this.sortedBy = index;
    this.arrange();
  }

  arrange() {
    const shown = this.test ? this.rows.filter(this.test) : [...this.rows];
    if (this.sortedBy !== null) {
      const column = this.columns[this.sortedBy];
      const by = column.by ?? column.text;
      const sign = this.isDescending ? -1 : 1;
      const keyed = shown.map((row) => [by(row), row]);
      keyed.sort(([a], [b]) => sign * compare(a, b));
      this.shown = keyed.map(([, row]) => row);
    } else {
      this.shown = shown;
    }
    this.heads.forEach((head, index) => {
      if (index === this.sortedBy) head.setAttribute("aria-sort", this.isDescending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.table.setAttribute("aria-rowcount", this.shown.length + 1);
    this.table.hidden = this.shown.length === 0;
    this.nothing.hidden = this.shown.length !== 0;
    this.height.style.height = `${this.shown.length * ROW}px`;
    this.scroller.style.height = `min(70vh, ${this.shown.length * ROW + 2}px)`;
    this.draw();
  }

  drawSoon() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw(true);
    });
  }

  // Fills the rows in sight; those that only move are left as they are.
  draw(isOnlyMoved = false) {
    const inSight = Math.ceil((this.scroller.clientHeight || 600) / ROW) + MORE;
    const count = Math.min(inSight, this.shown.length);
    const before = this.first;
    this.first = Math.max(0, Math.min(Math.floor(this.scroller.scrollTop / ROW) - MORE / 2, this.shown.length - count));
    while (this.pool.length < count) this.pool.push(this.newRow());
    this.turn(this.first - before);
    this.pool.forEach((slot, place) => {
      const index = this.first + place;
      const row = place < count ? this.shown[index] : undefined;
      slot.element.hidden = row === undefined;
      if (row === undefined || (isOnlyMoved && slot.row === row && slot.index === index)) return;
      this.fill(slot, row, index);
    });
    this.body.style.transform = `translateY(${this.first * ROW}px)`;
  }

  // Takes the few rows that go out of sight to the other end, so that the others keep their elements. Many are filled again instead,
  // which takes less than moving them.
  turn(rows) {
    if (Math.abs(rows) > Math.min(MORE / 2, this.pool.length)) return;
    for (let left = rows; left > 0; left--) {
      this.pool.push(this.pool.shift());
      this.body.append(this.pool.at(-1).element);
    }
    for (let left = rows; left < 0; left++) {
      this.pool.unshift(this.pool.pop());
      this.body.prepend(this.pool[0].element);
    }
  }

  newRow() {
    const slot = { row: null, index: -1 };
    slot.cells = this.columns.map((column) => {
      const cell = h("div", { role: "cell", class: column.isNumber ? "number" : null });
      let inner = cell;
      if (column.href) inner = cell.appendChild(h("a", {}));
      else if (column.open) {
        inner = cell.appendChild(h("button", { type: "button", class: "open", onclick: () => column.open(slot.row) }));
      }
      inner.append("");
      return { cell, inner, text: inner.firstChild };
    });
    slot.element = h("div", { role: "row", class: "row" }, slot.cells.map((each) => each.cell));
    slot.element.style.gridTemplateColumns = this.grid;
    this.body.append(slot.element);
    return slot;
  }

  fill(slot, row, index) {
    slot.row = row;
    slot.index = index;
    slot.element.setAttribute("aria-rowindex", index + 2);
    slot.element.toggleAttribute("data-chosen", index === this.chosen);
    this.columns.forEach((column, number) => {
      const { cell, inner, text } = slot.cells[number];
      const value = visible(String(column.text(row)));
      if (text.data !== value) text.data = value;
      if (column.href) this.lead(inner, column.href(row));
      if (column.isBad) cell.classList.toggle("bad", column.isBad(row));
    });
  }

  lead(link, href) {
    if (href === null) link.removeAttribute("href");
    else link.setAttribute("href", href);
  }

  // Moves the choice, and the focus with it.
  move(step) {
    if (this.shown.length === 0) return;
    this.chosen = Math.max(0, Math.min(this.chosen + step, this.shown.length - 1));
    const top = this.chosen * ROW;
    const height = this.scroller.clientHeight;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    if (top + ROW > this.scroller.scrollTop + height) this.scroller.scrollTop = top + ROW - height;
    this.draw();
    this.pool[this.chosen - this.first]?.element.querySelector("a, button")?.focus({ preventScroll: true });
  }

  close() {
    this.watched.disconnect();
    cancelAnimationFrame(this.frame);
  }
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return a < b ? -1 : 1;
}
