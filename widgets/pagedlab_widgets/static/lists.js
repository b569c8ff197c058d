// What the pictures show, as text: every event, to jump to; every block, to read.

import { h, setAttributes, setText } from "./dom.js";
import { KINDS } from "./events.js";
import { countUpTo, eventsOf, fillOf, isKeyed, refsOf } from "./replay.js";
import { Sheet } from "./sheet.js";
import { grouped, nameOf, tellEvent } from "./words.js";

/** @typedef {import("./replay.js").Tape} Tape */

/** @param {string} title @param {(Node | null)[]} inside */
function fold(title, ...inside) {
  const summary = h("summary", {}, title);
  return { summary, element: h("details", { class: "pl-fold" }, summary, ...inside) };
}

/** The events of a run, all or of one kind, all or of one sequence. */
export class EventList {
  /** Indices of the events listed. */
  #listed = new Uint32Array(0);
  #seq = -1;
  #frame = 0;
  #tape;

  /** @param {Tape} tape @param {(frame: number, since: number) => void} go */
  constructor(tape, go) {
    this.#tape = tape;
    this.kind = h("select", { "aria-label": "Kind of event" });
    this.sheet = new Sheet("Events", ["step", "event", "what"], "5em 9em 1fr", (i) => go(this.#frameOf(this.#listed[i]), performance.now()));
    this.none = h("p", { class: "pl-none" }, "No such event in this run.");
    const { summary, element } = fold("Events", h("div", { class: "pl-filter" }, this.kind), this.sheet.element, this.none);
    this.summary = summary;
    this.element = element;
    this.kind.addEventListener("change", () => this.#list());
    this.element.addEventListener("toggle", () => this.#list());
  }

  /** @param {Tape} tape @param {number} frame */
  load(tape, frame) {
    this.#tape = tape;
    this.#frame = frame;
    const counts = new Uint32Array(KINDS.length), chosen = this.kind.value;
    for (const kind of tape.kinds) counts[kind]++;
    const options = [h("option", { value: "" }, `every kind (${grouped(tape.kinds.length)})`)];
    counts.forEach((count, kind) => count && options.push(h("option", { value: kind, selected: String(kind) === chosen }, `${KINDS[kind]} (${grouped(count)})`)));
    this.kind.replaceChildren(...options);
    this.element.hidden = !tape.kinds.length;
    this.#list();
  }

  /** @param {number} seq  -1: everybody's */
  follow(seq) {
    this.#seq = seq;
    this.#list();
  }

  /** @param {number} frame */
  update(frame) {
    this.#frame = frame;
    if (this.element.open) this.#show();
  }

  #list() {
    const tape = this.#tape;
    setText(this.summary, this.#seq < 0 ? "Events" : `Events of ${nameOf(tape, this.#seq)}`);
    if (!this.element.open) return;
    const kind = this.kind.value;
    this.#listed = Uint32Array.from(tape.kinds.keys()).filter((i) => (kind === "" || tape.kinds[i] === Number(kind)) && (this.#seq < 0 || tape.seqs[i] === this.#seq));
    this.none.hidden = this.#listed.length > 0;
    this.sheet.element.hidden = !this.none.hidden;
    this.#show();
  }

  #show() {
    const tape = this.#tape;
    const past = countUpTo(this.#listed, eventsOf(tape, Math.min(this.#frame, tape.frames - 1))[1] - 1);
    this.sheet.show(this.#listed.length, (i) => {
      const event = this.#listed[i];
      return [grouped(this.#frameOf(event)), KINDS[tape.kinds[event]], tellEvent(tape, event)];
    }, past - 1);
  }

  /** @param {number} event */
  #frameOf(event) {
    return countUpTo(this.#tape.eventOffsets, event) - 1;
  }
}

/** Every block as a line of a table: what the map says, to be read. */
export class BlockList {
  /** @param {(block: number) => void} pick */
  constructor(pick) {
    this.sheet = new Sheet("Blocks", ["block", "first held by", "stored", "held by", "cached"], "4em minmax(6em, 1fr) 6em 4em 4em", pick);
    this.element = fold("Blocks as a table", this.sheet.element).element;
    this.element.addEventListener("toggle", () => this.show());
    this.show = () => {};
  }

  /** @param {Tape} tape @param {import("./replay.js").State} state */
  load(tape, state) {
    this.show = () => {
      if (!this.element.open) return;
      this.sheet.show(tape.numBlocks, (block) => {
        const slot = state.slots[block], refs = refsOf(slot);
        return [grouped(block), refs ? nameOf(tape, state.owners[block]) : "free", refs ? `${grouped(fillOf(slot))} of ${grouped(tape.blockSize)}` : "", refs ? grouped(refs) : "", isKeyed(slot) ? "yes" : ""];
      });
    };
    setAttributes(this.sheet.element, { "aria-label": `Blocks of ${tape.label}` });
    this.show();
  }
}
