// One run: its name, what just happened, its blocks on a canvas, what they add up to, and the block that the reader looks at.

import { drawMoves, fly, layer, putAt } from "./arrows.js";
import { BlockTable } from "./block_table.js";
import { h, icon, newId, prefersReducedMotion, setAttributes, setText } from "./dom.js";
import { SWAPPED } from "./events.js";
import { Painter, enlarge } from "./grid.js";
import { History } from "./history.js";
import { BlockList, EventList } from "./lists.js";
import { awayAt, countsAt, movesOf, refsOf, seek, startOf } from "./replay.js";
import { describeBlock, grouped, nameOf, percent, tellFrame } from "./words.js";

const HINT = "Point at a block, or use the arrow keys.";
const ZOOMS = [1, 2, 4, 8];
const SLOW = 15, FLIGHT = 650; // steps a second up to which single moves are shown; ms of a copy on its way
const MOST_MOVES = 64, MOST_AWAY = 6;

/** @typedef {{say: (text: () => string) => void, follow: (name: string) => void, relayout: () => void}} Host  what a panel asks of its widget */

export class Panel {
  /** @param {import("./timeline.js").Timeline} timeline @param {Host} host @param {import("./replay.js").Tape} tape */
  constructor(timeline, host, tape) {
    this.timeline = timeline;
    this.host = host;
    this.tape = tape;
    this.state = startOf(tape);
    this.selected = -1;
    this.zoom = 1;
    const id = newId("panel");
    this.title = h("bdi", { class: "pl-label", id: `${id}-label` });
    this.size = h("span", { class: "pl-size" });
    this.kind = h("b");
    this.how = h("span");
    this.now = h("p", { class: "pl-now", id: `${id}-now` }, this.kind, " ", this.how);
    this.canvas = h("canvas", {
      tabindex: 0, role: "application", "aria-roledescription": "block map",
      "aria-labelledby": `${id}-label`, "aria-describedby": `${id}-now ${id}-counts ${id}-block`,
    });
    this.cursor = h("div", { class: "pl-cursor", hidden: true });
    this.marks = layer();
    this.view = h("div", { class: "pl-canvas" }, this.canvas, this.marks.element, this.cursor);
    this.out = h("button", { type: "button", class: "pl-zoom", "aria-label": "Smaller blocks", title: "Smaller blocks (-)" }, icon("M3 7h10v2H3z"));
    this.in = h("button", { type: "button", class: "pl-zoom", "aria-label": "Larger blocks", title: "Larger blocks (+)" }, icon("M3 7h4V3h2v4h4v2H9v4H7V9H3z"));
    this.table = new BlockTable({ pick: (block) => this.select(block), placeOf: (block) => this.#onScreen(block), chosen: () => this.selected });
    this.stage = h("div", { class: "pl-stage" }, this.view, this.table.element, this.table.links.element);
    this.history = new History((frame, since) => timeline.seek(frame, "input", since));
    this.counts = h("p", { class: "pl-counts", id: `${id}-counts` });
    this.away = h("p", { class: "pl-away", hidden: true });
    this.block = h("span", { class: "pl-block", id: `${id}-block` });
    this.followHolder = h("button", { type: "button", class: "pl-follow", hidden: true });
    this.events = new EventList(tape, (frame, since) => timeline.seek(frame, "input", since));
    this.blocks = new BlockList((block) => this.select(block));
    this.element = h("div", { class: "pl-panel", role: "group", "aria-labelledby": `${id}-label` },
      h("div", { class: "pl-top" }, h("div", { class: "pl-head" }, this.title, this.size), this.out, this.in),
      this.now,
      this.history.element, this.stage, this.counts, this.away,
      h("p", { class: "pl-chosen" }, this.block, this.followHolder),
      this.events.element, this.blocks.element);
    this.figures = Object.fromEntries([
      ["used", "blocks in use"], ["stored", "tokens stored"], ["held", "slots held"], ["waste", "of them empty"], ["shared", "shared blocks"], ["kept", "free, still cached"],
    ].map(([key, label]) => {
      const value = h("b"), figure = h("span", { class: `pl-count-${key}` }, value, ` ${label} `);
      this.counts.append(figure);
      return [key, { value, figure }];
    }));
    this.painter = new Painter(this.canvas);
    this.#listen();
  }

  #listen() {
    this.canvas.addEventListener("keydown", (event) => this.#key(event));
    this.canvas.addEventListener("click", (event) => {
      const block = this.painter.blockAt(event.clientX, event.clientY);
      if (block >= 0) this.select(block);
    });
    this.canvas.addEventListener("dblclick", () => this.#followHolder());
    this.view.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.#enlarge(event.deltaY < 0 ? 1 : -1);
    }, { passive: false });
    this.view.addEventListener("scroll", () => this.table.point());
    this.out.addEventListener("click", () => this.#enlarge(-1));
    this.in.addEventListener("click", () => this.#enlarge(1));
    this.followHolder.addEventListener("click", () => this.#followHolder());
  }

  /** @param {import("./replay.js").Tape} tape */
  load(tape) {
    this.tape = tape;
    this.state = startOf(tape);
    seek(tape, this.state, this.timeline.frame);
    if (this.selected >= tape.numBlocks) this.selected = -1;
    setText(this.title, tape.label);
    setText(this.size, `${grouped(tape.numBlocks)} blocks of ${grouped(tape.blockSize)} slot${tape.blockSize > 1 ? "s" : ""}`);
    this.figures.kept.figure.hidden = !tape.kept.some(Boolean);
    this.events.load(tape, this.timeline.frame);
    this.blocks.load(tape, this.state);
    this.track("");
    this.#tell();
  }

  /** Follow the sequence of that name, if it is in this run; "" follows nobody. @param {string} name */
  track(name) {
    const seq = name === "" ? -1 : this.tape.names.indexOf(name);
    this.table.follow(this.tape, seq);
    this.events.follow(seq);
    this.painter.lit = this.table.update(this.tape, this.state, this.timeline.frame);
    setAttributes(this.element, { "data-following": seq < 0 ? null : name });
    this.#tellBlock();
  }

  /** @param {import("./grid.js").Grid} grid @param {import("./colours.js").Theme} theme */
  layout(grid, theme) {
    const { view } = this, across = view.scrollWidth, down = view.scrollHeight;
    const middle = [(view.scrollLeft + view.clientWidth / 2) / across, (view.scrollTop + view.clientHeight / 2) / down];
    const larger = enlarge(grid, this.zoom);
    this.painter.reset({ tape: this.tape, grid: larger, theme }, this.state);
    this.history.draw(this.tape, theme, this.timeline.frames);
    this.history.point(this.timeline.frame);
    setAttributes(view, { "data-zoomed": larger.cell > grid.cell });
    setAttributes(this.out, { "aria-disabled": String(this.zoom === ZOOMS[0]) });
    setAttributes(this.in, { "aria-disabled": String(this.zoom === ZOOMS[ZOOMS.length - 1] || enlarge(grid, 2 * this.zoom).cell === larger.cell) });
    Object.assign(this.marks.element.style, { width: this.canvas.style.width, height: this.canvas.style.height });
    view.scrollTo(middle[0] * view.scrollWidth - view.clientWidth / 2, middle[1] * view.scrollHeight - view.clientHeight / 2);
    this.#placeCursor();
    this.#mark(false);
    this.table.sheet.refresh();
  }

  /** Follow the timeline. @returns {number} blocks painted */
  follow() {
    const before = this.state.at, [first, end] = seek(this.tape, this.state, this.timeline.frame);
    if (before === this.state.at) return 0;
    this.painter.lit = this.table.update(this.tape, this.state, this.timeline.frame);
    const painted = this.painter.update(this.state, first, end);
    this.#mark(this.state.at === before + 1);
    this.#tell();
    return painted;
  }

  /** @param {number} block */
  select(block) {
    this.selected = Math.max(0, Math.min(this.tape.numBlocks - 1, block));
    this.#placeCursor();
    this.cursor.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.#tellBlock();
    this.table.point();
    this.host.say(() => this.block.textContent ?? "");
  }

  /** The run at this frame, in a sentence. */
  sentence() {
    const { used, waste, shared } = countsAt(this.tape, this.timeline.frame);
    const also = shared ? `, ${grouped(shared)} shared` : "", now = this.now.textContent?.trim();
    return `${this.tape.label}: ${now ? `${now}. ` : ""}${grouped(used)} of ${grouped(this.tape.numBlocks)} blocks in use${also}, ${percent(waste)} of the slots held are empty.`;
  }

  /** What is known of a block, for the tooltip and the line under the map. @param {number} block */
  describe(block) {
    return describeBlock(this.tape, this.state, block);
  }

  #tell() {
    const { tape } = this, { frame } = this.timeline, { used, stored, held, shared, kept, waste } = countsAt(tape, frame);
    const [what, how] = tellFrame(tape, frame);
    this.kind.hidden = !what;
    setText(this.kind, what);
    setText(this.how, how);
    const texts = { used: `${grouped(used)} of ${grouped(tape.numBlocks)}`, stored: grouped(stored), held: grouped(held), waste: percent(waste), shared: grouped(shared), kept: grouped(kept) };
    for (const [key, text] of Object.entries(texts)) setText(this.figures[key].value, text);
    this.history.point(frame);
    setAttributes(this.element, { "data-frame": frame, "data-used": used, "data-stored": stored, "data-held": held, "data-shared": shared });
    this.#tellAway();
    this.events.update(frame);
    this.blocks.show();
    this.table.point();
    this.#tellBlock();
  }

  #tellAway() {
    if (!this.tape.statuses.seqs.length) return setAttributes(this.away, { hidden: true });
    const away = [...awayAt(this.tape, this.timeline.frame)];
    this.away.hidden = false;
    setText(this.away, ["on the host", "to compute again"].map((what, i) => {
      const names = away.filter(([, where]) => (where === SWAPPED) === !i).map(([seq]) => nameOf(this.tape, seq));
      const more = names.length > MOST_AWAY ? ` and ${grouped(names.length - MOST_AWAY)} more` : "";
      return names.length ? `${what}: ${names.slice(0, MOST_AWAY).join(", ")}${more}` : "";
    }).filter(Boolean).join("; "));
  }

  #tellBlock() {
    const about = this.selected < 0 ? null : this.describe(this.selected);
    setText(this.block, about ? `${about.title}: ${[about.holder, about.detail].filter(Boolean).join("; ")}` : HINT);
    setAttributes(this.element, { "data-selected": about ? this.selected : null });
    const holder = this.#holder();
    this.followHolder.hidden = holder === null;
    if (holder !== null) setText(this.followHolder, this.element.dataset.following === holder ? "Stop following" : `Follow ${holder.slice(0, 32)}`);
  }

  /** The name of whoever holds the chosen block. */
  #holder() {
    if (this.selected < 0 || !refsOf(this.state.slots[this.selected])) return null;
    return this.tape.names[this.state.owners[this.selected]] ?? null;
  }

  #followHolder() {
    const holder = this.#holder();
    if (holder !== null) this.host.follow(this.element.dataset.following === holder ? "" : holder);
  }

  /** Show what this step did to single blocks. @param {boolean} onward  it was reached by going on by one */
  #mark(onward) {
    const { playing, speed, frame } = this.timeline;
    const { copies, evicted } = playing && speed > SLOW ? { copies: [], evicted: [] } : movesOf(this.tape, frame);
    const shown = copies.length + evicted.length > MOST_MOVES ? { copies: [], evicted: [] } : { copies, evicted };
    /** @param {number} block */
    const place = (block) => /** @type {import("./arrows.js").Place} */ (this.painter.placeOf(block) ?? { left: 0, top: 0, size: 0 });
    const ways = shown.copies.map(([a, b]) => /** @type {[any, any]} */ ([place(a), place(b)]));
    drawMoves(this.marks, ways, shown.evicted.map(place));
    if (!onward || prefersReducedMotion()) return;
    for (const way of ways) fly(this.view, this.canvas, way, Math.min(FLIGHT, playing ? 900 / speed : FLIGHT));
  }

  /** Where a block is on the screen, or the nearest place in sight. @param {number} block */
  #onScreen(block) {
    const place = this.painter.placeOf(block), box = this.view.getBoundingClientRect(), canvas = this.canvas.getBoundingClientRect();
    if (!place) return null;
    const x = canvas.left + place.left + place.size, y = canvas.top + place.top + place.size / 2;
    return { x: Math.max(box.left, Math.min(box.right, x)), y: Math.max(box.top, Math.min(box.bottom, y)) };
  }

  #placeCursor() {
    const place = this.selected < 0 ? null : this.painter.placeOf(this.selected);
    this.cursor.hidden = !place;
    if (!place) return;
    putAt(this.cursor, place);
  }

  /** @param {number} by  places in `ZOOMS`; 0: none at all */
  #enlarge(by) {
    const at = by ? ZOOMS.indexOf(this.zoom) + by : 0, button = by > 0 ? this.in : this.out;
    if (by && button.getAttribute("aria-disabled") === "true") return;
    this.zoom = ZOOMS[Math.max(0, Math.min(ZOOMS.length - 1, at))];
    this.host.relayout();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const columns = this.painter.columns, last = this.tape.numBlocks - 1;
    /** @param {number} by */
    const move = (by) => () => this.select(this.selected < 0 ? 0 : this.selected + by);
    /** @param {number} by */
    const step = (by) => () => this.timeline.seek(this.timeline.frame + by, "input", event.timeStamp);
    /** @type {Record<string, () => void>} */
    const actions = {
      ArrowRight: move(1), ArrowLeft: move(-1), ArrowDown: move(columns), ArrowUp: move(-columns),
      PageDown: move(8 * columns), PageUp: move(-8 * columns),
      Home: () => this.select(0), End: () => this.select(last),
      ",": step(-1), ".": step(1), " ": () => this.timeline.toggle(),
      "+": () => this.#enlarge(1), "=": () => this.#enlarge(1), "-": () => this.#enlarge(-1), "0": () => this.#enlarge(0),
      Enter: () => this.#followHolder(), Escape: () => this.host.follow(""),
    };
    const action = actions[event.key];
    if (!action) return;
    action();
    event.preventDefault();
  }
}
