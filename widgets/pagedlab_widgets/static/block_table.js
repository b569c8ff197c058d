// The logical view: the block table of one sequence beside the map, and arrows from its entries to the blocks.

import { drawLinks, layer } from "./arrows.js";
import { h, setAttributes, setText } from "./dom.js";
import { LEFT, SWAPPED } from "./events.js";
import { awayAt, fillOf, tablesOf } from "./replay.js";
import { Sheet } from "./sheet.js";
import { grouped, nameOf } from "./words.js";

/** @typedef {import("./replay.js").Tape} Tape */

export class BlockTable {
  /** @type {number[]} */
  table = [];
  /** @type {number[]} */
  #before = [];
  /** @type {((frame: number) => number[]) | null} */
  #tables = null;
  #seq = -1;

  /** @param {{pick: (block: number) => void, placeOf: (block: number) => {x: number, y: number} | null, chosen: () => number}} map  places on the screen */
  constructor(map) {
    this.map = map;
    this.title = h("bdi", { class: "pl-label" });
    this.about = h("span", { class: "pl-size" });
    this.sheet = new Sheet("Block table", ["entry", "block", "stored"], "3.5em 4em 1fr", (entry) => {
      if (this.table[entry] >= 0) map.pick(this.table[entry]);
    });
    this.sheet.scrolled = () => this.point();
    for (const kind of ["focus", "blur"]) this.sheet.element.addEventListener(kind, () => this.point());
    this.links = layer();
    this.element = h("div", { class: "pl-block-table", hidden: true }, h("div", { class: "pl-head" }, this.title, this.about), this.sheet.element);
  }

  get shown() {
    return this.#seq >= 0;
  }

  /** @param {Tape} tape @param {number} seq  -1: nobody */
  follow(tape, seq) {
    this.#seq = seq;
    this.#tables = seq < 0 ? null : tablesOf(tape, seq);
    this.element.hidden = seq < 0;
    setText(this.title, seq < 0 ? "" : nameOf(tape, seq));
    setAttributes(this.sheet.element, { "aria-label": `Block table of ${seq < 0 ? "nobody" : nameOf(tape, seq)}` });
  }

  /**
   * The table at a frame; which blocks are in it.
   * @param {Tape} tape @param {import("./replay.js").State} state @param {number} frame
   * @returns {Uint8Array | null}  1 for each of its blocks; null while nobody is followed
   */
  update(tape, state, frame) {
    if (!this.#tables) return null;
    this.#before = this.#tables(frame - 1);
    const table = (this.table = this.#tables(frame)), lit = new Uint8Array(tape.numBlocks);
    for (const block of table) if (block >= 0) lit[block] = 1;
    const away = awayAt(tape, frame).get(this.#seq);
    const where = away === undefined ? "holds no block at this step" : away === SWAPPED ? "on the host" : "preempted: to compute again";
    setText(this.about, table.length ? `block table, ${grouped(table.length)} entr${table.length > 1 ? "ies" : "y"}` : where);
    this.sheet.element.hidden = !table.length;
    this.sheet.show(table.length, (i) => [
      grouped(i), table[i] === LEFT ? "released" : grouped(table[i]),
      table[i] === LEFT ? "" : `${grouped(fillOf(state.slots[table[i]]))} of ${grouped(tape.blockSize)}`,
    ]);
    return lit;
  }

  /** Draw the arrows of the entries in sight. */
  point() {
    if (!this.shown || !this.links.element.isConnected) return;
    const box = this.links.element.getBoundingClientRect(), list = this.sheet.element.getBoundingClientRect();
    const links = [];
    for (const [entry, row] of this.sheet.inSight()) {
      const place = this.table[entry] >= 0 ? this.map.placeOf(this.table[entry]) : null, { left, top, height } = row.getBoundingClientRect();
      const y = top + height / 2;
      if (!place || y < list.top + height || y > list.bottom) continue;
      const asked = entry === this.sheet.active && this.sheet.element.matches(":focus");
      links.push({
        from: /** @type {[number, number]} */ ([left - box.left, y - box.top]), to: /** @type {[number, number]} */ ([place.x - box.left, place.y - box.top]),
        strong: asked || this.table[entry] === this.map.chosen() || this.table[entry] !== this.#before[entry],
      });
    }
    drawLinks(this.links, links);
  }
}
