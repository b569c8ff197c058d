// A long table of which only the rows in sight exist: events, block tables, blocks. Each row can be picked.

import { h, newId, setAttributes, setText } from "./dom.js";

const ROW = 24, MOST = 8; // CSS pixels of a row, rows in sight

export class Sheet {
  /** @type {(i: number) => string[]} */
  #cells = () => [];
  #count = 0;
  #active = 0;

  /**
   * @param {string} label @param {string[]} headings @param {string} widths  of the columns, as CSS has them
   * @param {(i: number) => void} pick
   */
  constructor(label, headings, widths, pick) {
    this.id = newId("sheet");
    this.pick = pick;
    /** The row that belongs to the frame shown; -1 for none. */
    this.current = -1;
    /** Called when other rows come into sight. */
    this.scrolled = () => {};
    const cells = headings.map((heading) => h("span", { role: "columnheader" }, heading));
    this.rows = h("div", { class: "pl-rows", role: "rowgroup" });
    this.element = h("div", { class: "pl-sheet", role: "grid", tabindex: 0, "aria-label": label },
      h("div", { role: "rowgroup", class: "pl-headings" }, h("div", { role: "row", "aria-rowindex": 1 }, ...cells)), this.rows);
    this.element.style.setProperty("--pl-columns", widths);
    this.element.addEventListener("scroll", () => this.refresh());
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.rows.addEventListener("click", (event) => {
      const row = /** @type {Element} */ (event.target).closest("[role=row]");
      if (row) this.#activate(Number(row.getAttribute("aria-rowindex")) - 2, true);
    });
  }

  get active() {
    return this.#active;
  }

  /** @param {number} count @param {(i: number) => string[]} cells  of a row @param {number} [current] */
  show(count, cells, current = -1) {
    this.#count = count;
    this.#cells = cells;
    this.#active = Math.max(0, Math.min(count - 1, this.#active));
    const moved = current !== this.current;
    this.current = current;
    this.rows.style.height = `${count * ROW}px`;
    this.element.style.height = `${(Math.min(count, MOST) + 1) * ROW + 2}px`;
    setAttributes(this.element, { "aria-rowcount": count + 1 });
    if (moved && current >= 0) this.#reveal(current);
    this.refresh();
  }

  /** Rows in sight and their elements. @returns {[number, HTMLElement][]} */
  inSight() {
    return [...this.rows.children].map((row) => [Number(row.getAttribute("aria-rowindex")) - 2, /** @type {HTMLElement} */ (row)]);
  }

  refresh() {
    const { element, rows } = this, height = element.clientHeight - ROW;
    const first = Math.max(0, Math.floor(element.scrollTop / ROW));
    const end = height > 0 ? Math.min(this.#count, Math.ceil((element.scrollTop + height) / ROW)) : first;
    while (rows.children.length > end - first) rows.lastElementChild?.remove();
    while (rows.children.length < end - first) rows.append(h("div", { role: "row" }));
    for (let i = first; i < end; i++) {
      const row = /** @type {HTMLElement} */ (rows.children[i - first]), texts = this.#cells(i);
      while (row.children.length < texts.length) row.append(h("span", { role: "gridcell" }));
      texts.forEach((text, k) => setText(row.children[k], text));
      row.style.top = `${i * ROW}px`;
      setAttributes(row, {
        id: `${this.id}-${i}`, "aria-rowindex": i + 2, "data-active": i === this.#active, "aria-current": i === this.current ? "step" : null,
      });
    }
    const there = this.#active >= first && this.#active < end;
    setAttributes(element, { "aria-activedescendant": there ? `${this.id}-${this.#active}` : null });
    this.scrolled();
  }

  /** @param {number} i @param {boolean} pick */
  #activate(i, pick) {
    if (!this.#count) return;
    this.#active = Math.max(0, Math.min(this.#count - 1, i));
    this.#reveal(this.#active);
    this.refresh();
    if (pick) this.pick(this.#active);
  }

  /** @param {number} i */
  #reveal(i) {
    const { element } = this, room = element.clientHeight - 2 * ROW, top = i * ROW;
    if (room > 0) element.scrollTop = Math.max(top - room, Math.min(top, element.scrollTop));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const to = { ArrowDown: this.#active + 1, ArrowUp: this.#active - 1, PageDown: this.#active + MOST, PageUp: this.#active - MOST, Home: 0, End: this.#count - 1 }[event.key];
    if (to !== undefined) this.#activate(to, false);
    else if (event.key === "Enter" || event.key === " ") this.#activate(this.#active, true);
    else return;
    event.preventDefault();
  }
}
