// One run: its name, its blocks on a canvas, what they add up to, and the block that the reader looks at.

import { h, setAttributes, setText } from "./dom.js";
import { Painter } from "./grid.js";
import { countsAt, describeBlock, grouped, percent, seek, startOf } from "./replay.js";

const HINT = "Point at a block, or use the arrow keys.";
let panelsMade = 0;

export class Panel {
  /** @param {import("./timeline.js").Timeline} timeline  @param {(text: () => string) => void} say */
  constructor(timeline, say) {
    this.timeline = timeline;
    this.say = say;
    this.selected = -1;
    const id = `pl-panel-${Date.now().toString(36)}-${panelsMade++}`;
    this.title = h("bdi", { class: "pl-label", id: `${id}-label` });
    this.size = h("span", { class: "pl-size" });
    this.canvas = h("canvas", {
      tabindex: 0, role: "application", "aria-roledescription": "block map",
      "aria-labelledby": `${id}-label`, "aria-describedby": `${id}-counts ${id}-block`,
    });
    this.cursor = h("div", { class: "pl-cursor", hidden: true });
    this.stored = h("span", { class: "pl-part-stored" });
    this.empty = h("span", { class: "pl-part-empty" });
    this.counts = h("p", { class: "pl-counts", id: `${id}-counts` });
    this.block = h("p", { class: "pl-block", id: `${id}-block` });
    this.element = h("div", { class: "pl-panel", role: "group", "aria-labelledby": `${id}-label` },
      h("div", { class: "pl-head" }, this.title, this.size),
      h("div", { class: "pl-meter", "aria-hidden": "true" }, this.stored, this.empty),
      h("div", { class: "pl-canvas" }, this.canvas, this.cursor),
      this.counts,
      this.block);
    this.figures = Object.fromEntries([
      ["used", "blocks in use"], ["stored", "tokens stored"], ["held", "slots held"], ["waste", "of them empty"], ["shared", "shared blocks"],
    ].map(([key, label]) => {
      const value = h("b");
      this.counts.append(h("span", { class: `pl-count-${key}` }, value, ` ${label} `));
      return [key, value];
    }));
    this.painter = new Painter(this.canvas);
    this.canvas.addEventListener("keydown", (event) => this.#key(event));
    this.canvas.addEventListener("click", (event) => {
      const block = this.painter.blockAt(event.clientX, event.clientY);
      if (block >= 0) this.select(block);
    });
  }

  /** @param {import("./replay.js").Tape} tape */
  load(tape) {
    this.tape = tape;
    this.state = startOf(tape);
    seek(tape, this.state, this.timeline.frame);
    if (this.selected >= tape.numBlocks) this.selected = -1;
    setText(this.title, tape.label);
    setText(this.size, `${grouped(tape.numBlocks)} blocks of ${grouped(tape.blockSize)} slot${tape.blockSize > 1 ? "s" : ""}`);
    this.#tell();
  }

  /** @param {import("./grid.js").Grid} grid @param {import("./colours.js").Theme} theme */
  layout(grid, theme) {
    if (!this.tape || !this.state) return;
    this.painter.reset({ tape: this.tape, grid, theme }, this.state);
    this.#placeCursor();
  }

  /** Follow the timeline. @returns {number} blocks painted */
  follow() {
    if (!this.tape || !this.state) return 0;
    const [first, end] = seek(this.tape, this.state, this.timeline.frame);
    if (first === end) return 0;
    const painted = this.painter.update(this.state, first, end);
    this.#tell();
    return painted;
  }

  /** @param {number} block */
  select(block) {
    if (!this.tape) return;
    this.selected = Math.max(0, Math.min(this.tape.numBlocks - 1, block));
    this.#placeCursor();
    this.#tellBlock();
    this.say(() => this.block.textContent ?? "");
  }

  /** The run at this frame, in a sentence. */
  sentence() {
    if (!this.tape) return "";
    const { used, waste, shared } = countsAt(this.tape, this.timeline.frame);
    const also = shared ? `, ${grouped(shared)} shared` : "";
    return `${this.tape.label}: ${grouped(used)} of ${grouped(this.tape.numBlocks)} blocks in use${also}, ${percent(waste)} of the slots held are empty.`;
  }

  /**
   * What is known of a block, for the tooltip and the line under the map.
   * @param {number} block
   */
  describe(block) {
    if (!this.tape || !this.state) return null;
    return describeBlock(this.tape, this.state, block);
  }

  #tell() {
    if (!this.tape) return;
    const { tape } = this, { used, stored, held, shared, waste } = countsAt(tape, this.timeline.frame);
    setText(this.figures.used, `${grouped(used)} of ${grouped(tape.numBlocks)}`);
    setText(this.figures.stored, grouped(stored));
    setText(this.figures.held, grouped(held));
    setText(this.figures.waste, percent(waste));
    setText(this.figures.shared, grouped(shared));
    const slots = tape.numBlocks * tape.blockSize;
    this.stored.style.width = `${(100 * stored) / slots}%`;
    this.empty.style.width = `${(100 * Math.max(0, held - stored)) / slots}%`;
    setAttributes(this.element, { "data-frame": this.timeline.frame, "data-used": used, "data-stored": stored, "data-held": held, "data-shared": shared });
    this.#tellBlock();
  }

  #tellBlock() {
    const about = this.selected < 0 ? null : this.describe(this.selected);
    setText(this.block, about ? `${about.title}: ${[about.holder, about.detail].filter(Boolean).join("; ")}` : HINT);
    setAttributes(this.element, { "data-selected": about ? this.selected : null });
  }

  #placeCursor() {
    const place = this.selected < 0 ? null : this.painter.placeOf(this.selected);
    this.cursor.hidden = !place;
    if (!place) return;
    const { left, top, size } = place;
    Object.assign(this.cursor.style, { left: `${left}px`, top: `${top}px`, width: `${size}px`, height: `${size}px` });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.tape) return;
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
    };
    const action = actions[event.key];
    if (!action) return;
    action();
    event.preventDefault();
  }
}
