// One side of the stepper: the block table, the pool with the slots that a load touches, the scores and what the
// softmax keeps of them.

import { h, setAttributes, setText, svg } from "./dom.js";
import { Lanes } from "./lanes.js";
import { number, stateAt } from "./stepper_state.js";
import { grouped, several } from "./words.js";

/** @typedef {import("./stepper_state.js").Side} Data */
/** @typedef {import("./stepper_state.js").State} State */

const ROW = 16; // slots in a row of the picture of a long block
const HEIGHT = 44;

/** @param {unknown} value */
const figure = (value) => {
  const n = number(value);
  if (Number.isNaN(n)) return "NaN";
  return Number.isFinite(n) ? String(Number(n.toPrecision(4))) : n < 0 ? "\u2212\u221e" : "\u221e";
};

export class SideView {
  /** @type {Data | null} */
  data = null;
  /** @type {HTMLElement[]} */
  #cells = [];
  /** @type {HTMLElement[]} */
  #blocks = [];

  constructor() {
    this.label = h("span", { class: "pl-label" });
    this.word = h("span", { class: "pl-word" });
    this.about = h("span", { class: "pl-about" });
    this.where = h("p", { class: "pl-where-at" });
    this.did = h("p", { class: "pl-did" });
    this.table = h("ol", { class: "pl-entries", "aria-label": "Block table" });
    this.pool = h("div", { class: "pl-pool", role: "img" });
    this.scores = h("div", { class: "pl-scores" });
    this.kept = h("tbody");
    this.lanes = new Lanes();
    this.moved = h("p", { class: "pl-moved" });
    this.rows = h("tbody");
    this.addresses = h("details", { class: "pl-fold" }, h("summary", {}, "Addresses of this load"),
      h("div", { class: "pl-scroll", tabindex: 0, role: "region", "aria-label": "Addresses" }, h("table", {},
        h("thead", {}, titles("element", "first byte", "bytes", "sectors")), this.rows)));
    this.element = h("div", { class: "pl-side", role: "group" },
      h("div", { class: "pl-row" }, this.label, this.word, this.about), this.where, this.did, this.table, this.pool, this.scores,
      h("table", { class: "pl-kept" }, h("thead", {}, titles("query head", "largest score", "rescaled by", "sum", "weighted values, summed up")), this.kept),
      this.moved, this.lanes.element, this.addresses);
  }

  /** @param {Data} data */
  load(data) {
    this.data = data;
    const { block_size: size, num_blocks: blocks } = data, ours = new Set(data.token_slots);
    setText(this.label, data.label);
    setText(this.word, data.word);
    setText(this.about, data.about);
    setAttributes(this.element, { "aria-label": data.label });
    this.table.hidden = !data.paged;
    this.table.replaceChildren(...data.table.map((block, i) => h("li", { title: `entry ${i} leads to block ${block}`, "data-wild": block < 0 || block >= blocks }, String(block))));
    this.#cells = [];
    this.#blocks = Array.from({ length: blocks }, (_, block) => {
      const cells = Array.from({ length: size }, (_, slot) => h("i", { "data-ours": ours.has(block * size + slot), title: `block ${block}, slot ${slot}` }));
      this.#cells.push(...cells);
      return h("div", { class: "pl-block" }, h("b", {}, data.paged ? String(block) : "row"), h("span", { class: "pl-slots", style: `--pl-across: ${Math.min(size, ROW)}` }, ...cells));
    });
    this.pool.replaceChildren(...this.#blocks);
  }

  /**
   * @param {number} at  index of the stop
   * @param {boolean} waits  the other side moved alone
   * @param {string[]} source  lines of the kernels
   * @returns {State | null}
   */
  show(at, waits, source) {
    const data = this.data;
    if (!data) return null;
    const state = stateAt(data, at), { stop, access } = state;
    setAttributes(this.element, { "data-waits": waits, "data-line": stop?.line ?? 0, "data-lit": state.lit.size, "data-tile": state.tile });
    setText(this.where, whereabouts(state));
    setText(this.did, stop ? `${waits ? "waits after " : ""}line ${stop.line}: ${source[stop.line - 1]?.trim() ?? ""}` : "not begun");
    this.#cells.forEach((cell, slot) => mark(cell, state.lit.has(slot) ? "lit" : state.read.has(slot) ? "read" : null));
    this.#blocks.forEach((block, i) => mark(block, [...state.lit].some((slot) => Math.floor(slot / data.block_size) === i) ? "lit" : null));
    [...this.table.children].forEach((entry, i) => {
      mark(/** @type {HTMLElement} */ (entry), state.entries.has(i) ? "lit" : null);
      setAttributes(entry, { "aria-current": state.entries.has(i) ? "true" : null });
    });
    setAttributes(this.pool, { "aria-label": `${data.paged ? `Pool of ${data.num_blocks} blocks` : "One row"}: this line touches ${grouped(state.lit.size)} slots, ${grouped(state.read.size)} were read before` });
    this.lanes.load(access?.requests ?? [], access?.width ?? 0);
    this.addresses.hidden = this.moved.hidden = !access;
    if (access) {
      setText(this.moved, `line ${state.from} ${access.kind === "load" ? "loads" : "stores"} ${access.tensor}: ${grouped(access.bytes)} B in ` +
        `${several(access.requests.length, "request")}, ${several(access.sectors, "sector")}, ${several(access.lines, "line")} of 128 B`);
    }
    this.rows.replaceChildren(...(access?.rows ?? []).map(([name, byte, bytes]) => h("tr", {}, h("th", { scope: "row" }, name),
      ...[grouped(byte), grouped(bytes), `${Math.floor(byte / 32)}\u2013${Math.floor((byte + bytes - 1) / 32)}`].map((text) => h("td", {}, text)))));
    this.#scores(state, data.token_slots.length);
    this.#kept(state);
    return state;
  }

  /** @param {State} state @param {number} tokens */
  #scores(state, tokens) {
    const all = state.scores.flat().map(number).filter(Number.isFinite), low = Math.min(0, ...all), high = Math.max(1e-9, ...all);
    const y = (/** @type {number} */ value) => HEIGHT - 2 - ((value - low) / (high - low)) * (HEIGHT - 4);
    this.scores.replaceChildren(...state.scores.map((row, headAt) => {
      const bars = row.flatMap((score, token) => (Number.isFinite(number(score)) ? [svg("rect", {
        x: token, width: 0.8, y: Math.min(y(0), y(number(score))), height: Math.max(0.5, Math.abs(y(number(score)) - y(0))), class: token >= state.tile ? "pl-now-bar" : "pl-old-bar",
      })] : []));
      const top = number(state.values.top?.[headAt]), line = Number.isFinite(top) ? [svg("line", { x1: 0, x2: tokens, y1: y(top), y2: y(top), class: "pl-top" })] : [];
      const text = `Scores of query head ${headAt}: ${bars.length} of ${tokens} tokens so far`;
      return h("figure", {}, h("figcaption", {}, `${text}; the line is the largest score kept`), svg("svg", { viewBox: `0 0 ${tokens} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": text }, ...bars, ...line));
    }));
  }

  /** @param {State} state */
  #kept({ values, merging }) {
    const heads = merging || !Array.isArray(values.top) ? [] : values.top;
    this.kept.replaceChildren(...heads.map((/** @type {unknown} */ top, /** @type {number} */ i) => h("tr", {}, h("th", { scope: "row" }, String(i)),
      ...[top, values.shrink?.[i] ?? "", values.share?.[i]].map((value) => h("td", {}, value === "" ? "" : figure(value))), h("td", {}, vector(values.total?.[i] ?? [])))));
  }
}

/** A short vector as bars; its numbers are the bars' text. @param {unknown[]} row */
export function vector(row) {
  const numbers = row.map(number), most = Math.max(1e-9, ...numbers.map(Math.abs).filter(Number.isFinite));
  return h("span", { class: "pl-vector", role: "img", "aria-label": row.map(figure).join(", "), title: row.map(figure).join(", ") },
    ...numbers.map((n) => h("i", { style: `--pl-at: ${Number.isFinite(n) ? n / most : 0}`, "data-down": n < 0 })));
}

/** The splits of the sequence, and how the merge weighs them. @param {State} state @param {number} splits */
export function mergeTree(state, splits) {
  const { merged, merging, stop } = state;
  const weights = [...merged.values()].map(({ weight }) => weight).filter(Boolean).pop();
  return [h("ol", { class: "pl-splits" }, ...Array.from({ length: splits }, (_, i) => {
    const split = state.splits.get(i), now = !merging && stop?.program[2] === i;
    return h("li", { "aria-current": now ? "true" : null }, h("b", {}, `split ${i}`),
      split?.top.length ? ` tokens ${split.from}\u2013${split.to - 1}: largest ${split.top.map(figure).join(" | ")}, sum ${split.share.map(figure).join(" | ")}` : " not run yet");
  })), ways(weights, splits), h("table", { class: "pl-kept" }, h("thead", {}, titles("query head", "log-sum-exp of the splits", "weights", "merged")), h("tbody", {},
    ...[...merged].map(([headAt, { part_lse: lses, weight, result }]) => h("tr", { "aria-current": merging && stop?.program[0] === headAt ? "true" : null }, h("th", { scope: "row" }, String(headAt)),
      h("td", {}, lses ? lses.map(figure).join(", ") : ""), h("td", {}, weight ? weight.map(figure).join(", ") : ""), h("td", {}, result ? vector(result) : "")))))];
}

/**
 * From every split to the merged result, as wide as it weighs; dashed while nobody has weighed it.
 * @param {unknown[] | undefined} weights @param {number} splits
 */
function ways(weights, splits) {
  return svg("svg", { viewBox: `0 0 ${splits} 1`, preserveAspectRatio: "none", "aria-hidden": "true", class: "pl-ways" }, ...Array.from({ length: splits }, (_, i) =>
    svg("path", { d: `M${i + 0.5} 0C${i + 0.5} 0.7 ${splits / 2} 0.3 ${splits / 2} 1`, "stroke-width": weights ? 1 + 9 * number(weights[i]) : 1, "data-open": !weights })));
}

/** @param {State} state */
function whereabouts({ stop, tile, merging, values }) {
  if (!stop) return "";
  if (merging) return `merge, query head ${stop.program[0]}`;
  const at = `KV head ${stop.program[1]}, split ${stop.program[2]}`;
  return tile < 0 ? `${at}: before the first tile` : `${at}: tile from token ${tile}${values.block ? `; blocks ${values.block}` : ""}`;
}

/** @param {HTMLElement} element @param {string | null} state */
function mark(element, state) {
  if ((element.dataset.state ?? null) !== state) setAttributes(element, { "data-state": state });
}

/** @param {string[]} names */
const titles = (...names) => h("tr", {}, ...names.map((name) => h("th", { scope: "col" }, name)));
