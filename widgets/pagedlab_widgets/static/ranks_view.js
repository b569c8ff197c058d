// Ranks at work: who holds which heads, what each was told, and where their tables part.

import { Announcer, h, keepKeys, newId, onChange, setAttributes, setText, svg } from "./dom.js";
import { STOPPED, wasGone, whenGone } from "./gone.js";
import { controlBar, joinTimeline } from "./timeline.js";
import { grouped } from "./words.js";

const WIDE = 560, HIGH = 56; // of the two curves, in drawing units

/**
 * @typedef {{tables: Record<string, number[]>, tokens: Record<string, number>, digest: string, waited_us: number}} RankStep
 * @typedef {{step: number, bytes: number, error: number | null, ranks: Record<string, RankStep>}} Frame
 * @typedef {{rank: number, kv_heads: [number, number], copies: number, pool: number}} Shard
 */

/** @param {{model: import("./dom.js").Model, el: HTMLElement}} context */
function render({ model, el }) {
  const status = h("p", { class: "pl-ranks-status", role: "status" });
  const cards = h("div", { class: "pl-ranks", role: "list", "aria-label": "Ranks" });
  const bytes = curve("bytes of a message (computed)"), error = curve("difference to one process, logarithmic (measured)");
  const summary = h("p", { class: "pl-ranks-summary" });
  const announcer = new Announcer();
  const { timeline, leave } = joinTimeline(newId("ranks"), (cause) => {
    paint();
    if (cause !== "play") announcer.say(inWords);
  });
  const bar = controlBar(timeline);
  el.classList.add("pl-widget", "pl-ranks-view");
  el.replaceChildren(status, bar.element, cards, bytes.element, error.element, summary, announcer.element);
  keepKeys(el);

  let gone = wasGone(el);
  /** @returns {Frame[]} */
  const frames = () => model.get("frames");
  const last = () => timeline.frame === timeline.last;

  function inWords() {
    const frame = frames()[timeline.frame];
    return frame ? `Step ${frame.step}. ${told(frame)} ${parted(frame).length ? `Tables differ on rank ${parted(frame).join(", ")}.` : "All tables alike."}` : "";
  }

  function paint() {
    const all = frames(), frame = all[timeline.frame];
    bar.refresh();
    const shards = /** @type {Shard[]} */ (model.get("shards"));
    cards.replaceChildren(...shards.map((shard) => card(shard, frame, model.get("heads"), last() && shard.rank === model.get("culprit"))));
    bytes.draw(all.map(({ bytes }) => bytes), timeline.frame, (value) => `${grouped(value)} bytes`);
    error.draw(all.map(({ error }) => (error === null ? null : Math.log10(Math.max(error, 1e-9)))), timeline.frame,
      (value) => (value <= -9 ? "none" : (10 ** value).toPrecision(2)));
    setAttributes(el, { "data-step": frame ? frame.step : null, "data-parted": frame ? parted(frame).join(" ") : null });
  }

  function show() {
    setText(status, gone && model.get("busy") ? STOPPED : model.get("status"));
    setText(summary, model.get("summary"));
    timeline.resize(frames().length);
    if (!timeline.playing && model.get("frame")) timeline.seek(model.get("frame"), "model");
    paint();
  }

  const deaf = onChange(model, ["frames", "shards", "busy", "status", "summary", "culprit", "frame"], () => { gone = false; show(); });
  const unwatch = whenGone(model, () => { gone = true; show(); });
  show();
  return () => {
    unwatch();
    deaf();
    announcer.stop();
    timeline.pause();
    leave();
  };
}

/** @param {Frame} frame */
const told = (frame) => (frame.bytes ? `Each rank was told ${grouped(frame.bytes)} bytes.` : "No message.");

/** The ranks whose tables are not those of rank 0. @param {Frame} frame */
export const parted = (frame) => Object.keys(frame.ranks).filter((rank) => frame.ranks["0"] && frame.ranks[rank].digest !== frame.ranks["0"].digest);

/**
 * One rank: its heads, and the table as it has it, with what differs from rank 0 marked.
 * @param {Shard} shard @param {Frame | undefined} frame @param {number} heads  KV heads of the model @param {boolean} broken
 */
function card(shard, frame, heads, broken) {
  const mine = frame?.ranks[shard.rank], truth = frame?.ranks["0"];
  const differs = !!frame && parted(frame).includes(String(shard.rank));
  const [first, past] = shard.kv_heads, held = past - first;
  const state = broken ? "broken" : !frame ? "waiting" : !mine ? "gone" : differs ? "other tables" : "in step";
  const boxes = h("span", { class: "pl-heads", role: "img", "aria-label": `holds KV head${held > 1 ? "s" : ""} ${first}${held > 1 ? ` to ${past - 1}` : ""} of ${heads}` },
    ...Array.from({ length: heads }, (_, head) => h("i", { class: head >= first && head < past ? "pl-held" : "" })));
  const rows = Object.entries(mine?.tables ?? {}).map(([name, table]) => h("li", {}, h("bdi", { class: "pl-seq" }, name),
    h("span", { class: truth?.tokens[name] === mine?.tokens[name] ? "pl-note" : "pl-note pl-differs" }, `${mine?.tokens[name]} tokens`),
    ...table.map((block, at) => h("span", { class: truth?.tables[name]?.[at] === block ? "pl-entry" : "pl-entry pl-differs" }, String(block)))));
  const message = shard.rank === 0 ? "decides" : frame?.bytes ? `← ${grouped(frame.bytes)} B` : "no message";
  return h("section", { class: "pl-rank", role: "listitem", "data-rank": shard.rank, "data-state": state },
    h("header", {}, h("strong", {}, `rank ${shard.rank}`), boxes, h("span", { class: "pl-state" }, broken ? "✕ broken" : state)),
    h("p", { class: "pl-note" }, [message, shard.copies > 1 ? `this head is held ${shard.copies} times` : "", mine ? `digest ${mine.digest}` : ""].filter(Boolean).join(" · ")),
    h("ul", { "aria-label": `Block table of rank ${shard.rank}` }, ...rows));
}

/** A curve over the steps with a mark at the current one; its numbers are in its label. @param {string} title */
function curve(title) {
  const line = svg("polyline", { fill: "none", stroke: "currentColor", "stroke-width": 1.5, "vector-effect": "non-scaling-stroke" });
  const mark = svg("line", { y1: 0, y2: HIGH, stroke: "var(--pl-accent)", "stroke-width": 2, "vector-effect": "non-scaling-stroke" });
  const drawing = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img" }, line, mark);
  const value = h("output", {});
  const element = h("figure", { class: "pl-curve" }, h("figcaption", {}, title, ": ", value), drawing);
  /** @param {(number | null)[]} values @param {number} at @param {(value: number) => string} text */
  function draw(values, at, text) {
    const known = /** @type {number[]} */ (values.filter((v) => v !== null));
    element.hidden = !known.length;
    if (!known.length) return;
    const least = Math.min(...known), span = Math.max(...known) - least || 1, last = Math.max(1, values.length - 1);
    const points = values.flatMap((v, i) => (v === null ? [] : [`${(WIDE * i) / last},${HIGH - 3 - ((HIGH - 6) * (v - least)) / span}`]));
    setAttributes(line, { points: points.join(" ") });
    setAttributes(mark, { x1: (WIDE * at) / last, x2: (WIDE * at) / last });
    const here = values[at], now = here === null || here === undefined ? "not known" : text(here);
    setText(value, `${now} at this step, ${text(least)} to ${text(Math.max(...known))} in all`);
    setAttributes(drawing, { "aria-label": `${title}: ${value.textContent}` });
  }
  return { element, draw };
}

export default { render };
