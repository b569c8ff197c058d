// A chart that is a table: each row a bar of segments, its numbers as text, a note. A screen reader reads the table;
// the bars are only another way to look at it. What stays the same is left alone, so a change costs next to nothing.

import { guessOf, h, hearGuesses, onChange, scroller, setAttributes, setText, together } from "./dom.js";
import { STOPPED, wasGone, whenGone } from "./gone.js";

/**
 * @typedef {{kind: string, label: string}} Kind
 * @typedef {{kind: string, share: number, text: string, low: number | null, high: number | null}} Segment  shares of the full width
 * @typedef {{label: string, segments: Segment[], note: string}} Row
 * @typedef {{key: string, here: number, unit: string, scale: number}} Asked  whose answer this is; without a key, nobody's
 */

const NONE = "\u2013", SEALED = "Commit to a guess above, and the answer appears here.";

/** @param {{model: import("./dom.js").Model, el: HTMLElement}} context */
function render({ model, el }) {
  const title = h("span", { class: "pl-title" }), about = h("span", { class: "pl-about" });
  const head = h("thead"), body = h("tbody");
  const word = h("span", { class: "pl-word" }), device = h("bdi", { class: "pl-device" });
  const status = h("span", { class: "pl-status", role: "status", "aria-live": "polite" });
  const table = h("table", {}, h("caption", {}, title, about), head, body);
  el.classList.add("pl-widget", "pl-bar-table");
  el.replaceChildren(scroller("Table", table), h("div", { class: "pl-foot" }, word, device, status));

  let shape = "", gone = wasGone(el);
  const show = () => {
    /** @type {Kind[]} */
    const legend = model.get("legend");
    /** @type {Asked} */
    const asked = model.get("guess"), guess = asked.key ? guessOf(asked.key) : null;
    const sealed = Boolean(asked.key) && guess === null;
    const rows = sealed ? [] : guess === null ? model.get("rows") : withGuess(guess, asked, model.get("rows"), legend[0].kind);
    const notes = rows.some((/** @type {Row} */ row) => row.note);
    const wanted = JSON.stringify([legend, rows.length, notes, model.get("heading"), model.get("bar_heading")]);
    if (wanted !== shape) {
      shape = wanted;
      head.replaceChildren(headings(model.get("heading"), model.get("bar_heading"), legend, notes));
      body.replaceChildren(...rows.map(() => emptyRow(legend, notes)));
    }
    rows.forEach((/** @type {Row} */ row, /** @type {number} */ i) => fillRow(/** @type {HTMLTableRowElement} */ (body.children[i]), row, legend));
    setText(title, model.get("title"));
    setText(about, sealed ? SEALED : model.get("caption"));
    setText(word, model.get("word"));
    setText(device, model.get("device"));
    setText(status, gone && model.get("status") ? STOPPED : model.get("status"));
    setAttributes(el, { "data-rows": rows.length, "data-word": model.get("word"), "data-status": (!gone && model.get("status")) || null });
    el.dispatchEvent(new CustomEvent("pl:painted", { bubbles: true, detail: { rows: rows.length } }));
  };
  // One message may change many traits; the table is filled once, when all of them are there.
  const traits = ["title", "caption", "word", "device", "status", "legend", "rows", "heading", "bar_heading", "guess"];
  const stops = [
    onChange(model, traits, together(() => { gone = false; show(); })),
    whenGone(model, () => { gone = true; show(); }),
    hearGuesses(() => { if (model.get("guess").key) show(); }),
  ];
  show();
  return () => stops.forEach((stop) => stop());
}

/**
 * The reader's guess above the rows, on a scale that holds both.
 * @param {number} guess @param {Asked} asked @param {Row[]} rows @param {string} kind @returns {Row[]}
 */
function withGuess(guess, { here, unit, scale }, rows, kind) {
  const smaller = Math.min(1, scale / guess || 1);
  /** @param {number | null} share */
  const shrink = (share) => share == null ? null : share * smaller;
  const shrunk = rows.map((row) => ({
    ...row, segments: row.segments.map((part) => ({ ...part, share: part.share * smaller, low: shrink(part.low), high: shrink(part.high) })),
  }));
  const off = Number(Math.abs(guess - here).toPrecision(3)), text = `${guess} ${unit}`.trim();
  return [{ label: "your guess", segments: [{ kind, share: (guess / scale) * smaller, text, low: null, high: null }], note: `off by ${off}` }, ...shrunk];
}

/** @param {string} text  for screen readers only */
const hidden = (text) => h("span", { class: "pl-hidden" }, text);

/** @param {string} heading @param {string} barHeading @param {Kind[]} legend @param {boolean} notes */
function headings(heading, barHeading, legend, notes) {
  /** @param {(Node | string | null)[]} children */
  const column = (...children) => h("th", { scope: "col" }, ...children);
  return h("tr", {},
    heading ? column(heading) : h("td"),
    column(barHeading || hidden("Bar")),
    ...legend.map(({ label }, i) => column(h("i", { class: `pl-swatch pl-kind-${i}`, "aria-hidden": "true" }), label)),
    notes ? column(hidden("Note")) : null);
}

/** @param {Kind[]} legend @param {boolean} notes */
function emptyRow(legend, notes) {
  return h("tr", {},
    h("th", { scope: "row" }, h("bdi")),
    h("td", { class: "pl-bars" }, h("div", { class: "pl-track", "aria-hidden": "true" })),
    ...legend.map(() => h("td", { class: "pl-number" })),
    notes ? h("td", { class: "pl-note" }) : null);
}

/** @param {HTMLTableRowElement} line @param {Row} row @param {Kind[]} legend */
function fillRow(line, row, legend) {
  const cells = [...line.cells];
  setText(/** @type {Node} */ (cells[0].firstChild), row.label);
  const place = new Map(legend.map(({ kind }, i) => [kind, i]));
  /** @type {string[]} */
  const texts = legend.map(() => "");
  for (const { kind, text } of row.segments) {
    const i = place.get(kind) ?? 0;
    texts[i] = texts[i] ? `${texts[i]}, ${text}` : text;
  }
  texts.forEach((text, i) => setText(cells[2 + i], text || NONE));
  if (cells.length > 2 + legend.length) setText(cells[2 + legend.length], row.note);
  fillTrack(/** @type {HTMLElement} */ (cells[1].firstChild), row.segments, place);
}

/** @param {HTMLElement} track @param {Segment[]} segments @param {Map<string, number>} place */
function fillTrack(track, segments, place) {
  const spreads = segments.filter((segment) => segment.low != null && segment.high != null);
  while (track.children.length > segments.length + spreads.length) track.lastElementChild?.remove();
  while (track.children.length < segments.length + spreads.length) track.append(h("span"));
  let left = 0, next = 0;
  for (const { kind, share, low, high } of segments) {
    const bar = /** @type {HTMLElement} */ (track.children[next++]);
    bar.className = `pl-segment pl-kind-${place.get(kind) ?? 0}`;
    bar.dataset.kind = kind;
    stretch(bar, left, share);
    if (low != null && high != null) {
      const spread = /** @type {HTMLElement} */ (track.children[next++]);
      spread.className = "pl-spread";
      delete spread.dataset.kind;
      stretch(spread, left + low, high - low);
    }
    left += share;
  }
}

/** @param {HTMLElement} element @param {number} left @param {number} width */
function stretch(element, left, width) {
  element.style.left = `${(100 * left).toFixed(3)}%`;
  element.style.width = `${(100 * width).toFixed(3)}%`;
}

export default { render };
