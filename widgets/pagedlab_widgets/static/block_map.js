// The block map: panels on one timeline. This module ties them to the model and to the page.
//
// For whoever measures: each change ends, once it is on the screen, in an event `pl:painted` on the widget's element
// with { frame, blocks: how many were painted, cause, playing, ms: since the input, or since the change was noticed }.

import { readTheme, watchTheme } from "./colours.js";
import { Announcer, Saver, afterPaint, h, keepKeys, onChange, setAttributes, setText } from "./dom.js";
import { FollowBar } from "./follow.js";
import { fit } from "./grid.js";
import { Panel } from "./panel.js";
import { decode } from "./replay.js";
import { comfortableSpeed, controlBar, joinTimeline } from "./timeline.js";

const NARROWEST = 300, GAP = 16, TALLEST = 420; // CSS pixels: a panel, the space between two, a map
const BESIDE = 560, TABLE = 280; // a panel that has room for a block table beside its map, and what the table takes

/**
 * Runs already decoded, by the bytes they came in: two views of a model share them.
 * @type {WeakMap<DataView, import("./replay.js").Tape>}
 */
const decoded = new WeakMap();

/** @param {import("./replay.js").WireTrace} wire */
function tapeOf(wire) {
  const tape = decoded.get(wire.events) ?? decode(wire);
  decoded.set(wire.events, tape);
  return tape;
}

/** One colour for one name, whichever run it is in. @param {import("./replay.js").Tape[]} tapes */
function colourByName(tapes) {
  /** @type {Map<string, number>} */
  const colours = new Map();
  for (const { names } of tapes) for (const name of names) if (!colours.has(name)) colours.set(name, colours.size);
  for (const tape of tapes) tape.colours = Uint16Array.from(tape.names, (name) => colours.get(name) ?? 0);
  return [...colours.keys()];
}

/**
 * One saver for all views of a model: they share its module and its timeline, and would each send what the reader does.
 * @type {WeakMap<import("./timeline.js").Timeline, Saver>}
 */
const savers = new WeakMap();

/** @param {{model: import("./dom.js").Model, el: HTMLElement}} context */
function render({ model, el }) {
  /** @param {import("./timeline.js").Cause} cause */
  const listener = (cause) => moved(cause);
  const { timeline, leave } = joinTimeline(model.get("timeline"), listener);
  const announcer = new Announcer(), saver = savers.get(timeline) ?? new Saver(model, "frame");
  savers.set(timeline, saver);
  const bar = controlBar(timeline);
  const following = new FollowBar((name) => {
    model.set("follow", name);
    model.save_changes();
  });
  const board = h("div", { class: "pl-panels" });
  const nothing = h("p", { class: "pl-nothing", hidden: true });
  const tip = h("div", { class: "pl-tip", hidden: true, "aria-hidden": "true" });
  const word = h("span", { class: "pl-word" });
  const meaning = legend(word);
  el.classList.add("pl-widget", "pl-block-map");
  el.replaceChildren(bar.element, following.element, nothing, board, meaning, announcer.element, tip);
  keepKeys(el);

  /** @type {Panel[]} */
  let panels = [];
  /** @type {{panel: Panel, block: number} | null} */
  let pointed = null;
  /** Width for which the panels are laid out; 0 while they are in no document. */
  let width = 0, frames = 0;

  const pace = () => {
    timeline.pace(model.get("speed") || comfortableSpeed(timeline.frames));
    bar.refresh();
  };
  const show = () => {
    /** @type {import("./replay.js").Tape[]} */
    const tapes = model.get("panels").map(tapeOf);
    following.load(colourByName(tapes));
    frames = Math.max(0, ...tapes.map((tape) => tape.frames));
    timeline.resize(frames, listener);
    if (!timeline.chosen) pace();
    while (panels.length < tapes.length) {
      const host = { say: (/** @type {() => string} */ text) => announcer.say(text), follow: following.follow, relayout: layout };
      const panel = new Panel(timeline, host, tapes[panels.length]);
      panel.canvas.addEventListener("pointermove", (event) => point(panel, event));
      panel.canvas.addEventListener("pointerleave", () => point(null));
      panels.push(panel);
    }
    panels = panels.slice(0, tapes.length);
    // Taken out and put back, the map would lose the keyboard.
    if (board.children.length !== panels.length) board.replaceChildren(...panels.map((panel) => panel.element));
    panels.forEach((panel, i) => panel.load(tapes[i]));
    nothing.hidden = timeline.frames > 0;
    board.hidden = bar.element.hidden = meaning.hidden = !nothing.hidden;
    setText(nothing, tapes.length ? "Nothing happened in this run: it has no steps to show." : "No run to show yet.");
    setText(word, model.get("word"));
    setAttributes(meaning, { "data-kept": tapes.some((tape) => tape.kept.some(Boolean)), "data-shared": tapes.some((tape) => tape.shared.some(Boolean)) });
    follow();
    refresh();
  };

  const follow = () => {
    following.show(model.get("follow"));
    for (const panel of panels) panel.track(model.get("follow"));
    layout();
  };

  const layout = () => {
    if (!width || !panels.length) return;
    const across = Math.max(1, Math.min(panels.length, Math.floor((width + GAP) / (NARROWEST + GAP))));
    board.style.gridTemplateColumns = `repeat(${across}, minmax(0, 1fr))`;
    const frame = panels[0].element, style = getComputedStyle(frame);
    const inside = frame.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    if (inside <= 0) return;
    const theme = readTheme(el), ratio = globalThis.devicePixelRatio || 1;
    for (const panel of panels) {
      const blocks = panel.tape.numBlocks, beside = panel.table.shown && inside >= BESIDE;
      const gutter = 7 * String(blocks - 1).length + 8;
      setAttributes(panel.stage, { "data-table": panel.table.shown ? (beside ? "beside" : "below") : null });
      panel.layout(fit({ blocks, width: inside - (beside ? TABLE : 0), height: TALLEST, ratio, columns: model.get("columns"), gutter }), theme);
    }
    following.paint(theme);
  };

  const refresh = () => {
    bar.refresh();
    setAttributes(el, { "data-frame": timeline.frame, "data-frames": timeline.frames, "data-playing": String(timeline.playing) });
    if (pointed) fillTip(tip, pointed.panel.describe(pointed.block));
  };

  /** The frame as Python may have it: a shorter run holds its last. */
  const own = () => Math.min(timeline.frame, Math.max(0, frames - 1));

  /** @param {import("./timeline.js").Cause} cause */
  const moved = (cause) => {
    const { frame, playing } = timeline, since = timeline.since || performance.now();
    let blocks = 0;
    for (const panel of panels) blocks += panel.follow();
    refresh();
    afterPaint(() => el.dispatchEvent(new CustomEvent("pl:painted", {
      bubbles: true, detail: { frame, blocks, cause, playing, ms: performance.now() - since },
    })));
    if (cause === "play") model.set("frame", own()); // stays in the page: for what is linked to it there
    else if (cause !== "model" || model.get("frame") !== own()) saver.save(own());
    if (cause === "input" || cause === "pause") {
      announcer.say(() => `Step ${timeline.frame} of ${timeline.last}. ${panels.map((panel) => panel.sentence()).join(" ")}`);
    }
  };

  /** @param {Panel | null} panel @param {PointerEvent} [event] */
  const point = (panel, event) => {
    const block = panel && event ? panel.painter.blockAt(event.clientX, event.clientY) : -1;
    pointed = panel && block >= 0 ? { panel, block } : null;
    tip.hidden = !pointed;
    if (!pointed || !event || !panel) return;
    fillTip(tip, panel.describe(block));
    const box = el.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const left = x + 14 + tip.offsetWidth > box.width ? x - 10 - tip.offsetWidth : x + 14;
    const top = y + 16 + tip.offsetHeight > box.height ? y - 10 - tip.offsetHeight : y + 16;
    Object.assign(tip.style, { left: `${Math.max(0, left)}px`, top: `${Math.max(0, top)}px` });
  };

  const told = () => {
    if (Saver.saving || model.get("frame") === own()) return;
    saver.cancel();
    timeline.seek(model.get("frame"), "model");
  };
  // `el` is in no document yet: how wide it is and which colours hold there, its first resize tells.
  const resizing = new ResizeObserver(() => {
    if (!el.isConnected || !el.clientWidth || el.clientWidth === width) return;
    width = el.clientWidth;
    layout();
  });
  resizing.observe(el);
  const stops = [
    onChange(model, ["panels", "word"], show), onChange(model, ["speed"], pace), onChange(model, ["columns"], layout),
    onChange(model, ["frame"], told), onChange(model, ["follow"], follow), watchTheme(() => requestAnimationFrame(layout)),
  ];

  if (!timeline.frames) {
    timeline.frame = model.get("frame");
    timeline.loop = model.get("loop");
  }
  show();
  return () => {
    if (!leave()) saver.cancel();
    announcer.stop();
    resizing.disconnect();
    stops.forEach((stop) => stop());
  };
}

/** @param {HTMLElement} tip @param {{title: string, holder: string, detail: string}} about */
function fillTip(tip, { title, holder, detail }) {
  tip.replaceChildren(h("strong", {}, title), h("bdi", {}, holder), h("span", {}, detail));
}

/** What the drawing means. @param {HTMLElement} word */
function legend(word) {
  const entries = [["stored", "stores tokens"], ["empty", "held, empty"], ["free", "free"], ["kept", "free, still cached"], ["shared", "shared by several"]];
  return h("div", { class: "pl-legend" },
    ...entries.map(([key, text]) => h("span", { class: `pl-means-${key}` }, h("i", { class: `pl-swatch pl-swatch-${key}`, "aria-hidden": "true" }), text)),
    h("span", {}, "a colour: a sequence"),
    h("span", {}, "keys on a map: arrows, space to play, comma and full stop to step, plus and minus, enter to follow"),
    word);
}

export default { render };
