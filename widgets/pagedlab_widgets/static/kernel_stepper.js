// The kernel stepper: sides on one timeline, the kernel's text with the line each side is at, and what the reader
// may change: the block table, the text. A change is carried out by Python; all the rest happens in the page.

import { Announcer, Saver, h, keepKeys, onChange, setAttributes, setText } from "./dom.js";
import { wasGone, whenGone } from "./gone.js";
import { SideView, mergeTree } from "./stepper_side.js";
import { controlBar, joinTimeline } from "./timeline.js";

const SPEED = 2; // steps a second: a line is to be read

/** @param {{model: import("./dom.js").Model, el: HTMLElement}} context */
function render({ model, el }) {
  const { timeline, leave } = joinTimeline(model.get("timeline"), moved);
  const announcer = new Announcer(), saver = new Saver(model, "step"), bar = controlBar(timeline);
  const tileBack = h("button", { type: "button" }, "Previous tile"), tileNext = h("button", { type: "button" }, "Next tile");
  bar.element.append(tileBack, tileNext);
  const table = h("input", { type: "text", spellcheck: "false", "aria-label": "Block table that the kernel is told" });
  const run = h("button", { type: "button" }, "Run"), undo = h("button", { type: "button" }, "Undo all");
  const edit = h("button", { type: "button", "aria-expanded": "false" }, "Edit the kernel");
  const status = h("span", { class: "pl-status", role: "status" }), trouble = h("p", { class: "pl-trouble", role: "alert" });
  const form = h("div", { class: "pl-row pl-edit", role: "group", "aria-label": "What the kernel is told" }, h("span", {}, "Block table"), table, run, undo, edit, status);
  const board = h("div", { class: "pl-sides" }), tree = h("div", { class: "pl-tree", role: "group", "aria-label": "Splits and their merge" });
  const code = h("ol", { class: "pl-code", tabindex: 0, "aria-label": "The kernels' source" }), text = h("textarea", { spellcheck: "false", hidden: true, "aria-label": "The kernels' source, to edit" });
  el.classList.add("pl-widget", "pl-stepper");
  const legend = h("p", { class: "pl-legend" }, ...[["lit", "touched by this line"], ["read", "read before by this program"], ["ours", "holds a token"], ["", "another's"]]
    .map(([state, means]) => h("span", { class: "pl-slots" }, h("i", { "data-state": state, "data-ours": state === "ours" }), means)));
  el.replaceChildren(bar.element, form, trouble, board, legend, tree, code, text, announcer.element);
  keepKeys(el);
  timeline.pace(SPEED);

  /** @type {SideView[]} */
  let views = [];
  /** @type {number[][]} */
  let frames = [];
  /** @type {string[]} */
  let source = [];
  let gone = wasGone(el);

  function load() {
    /** @type {import("./stepper_state.js").Side[]} */
    const sides = model.get("sides");
    frames = model.get("beside");
    source = model.get("source").split("\n");
    timeline.resize(frames.length, moved);
    while (views.length < sides.length) views.push(new SideView());
    views = views.slice(0, sides.length);
    if (board.children.length !== views.length) board.replaceChildren(...views.map((view) => view.element));
    views.forEach((view, i) => view.load(sides[i]));
    code.replaceChildren(...source.map((line) => h("li", {}, h("code", {}, line || " "))));
    tree.hidden = !(sides[0]?.splits > 1);
    told();
    draw();
  }

  function told() {
    const live = model.get("live") && !gone, busy = gone ? "" : model.get("status");
    table.value = model.get("table").join(", ");
    if (text.hidden) text.value = model.get("source");
    for (const control of [table, run, undo, edit]) control.disabled = !live;
    setText(status, live ? busy : `to change the table or the kernel, ${gone ? "run this cell in JupyterLab" : "Triton is needed: this is recorded"}`);
    setText(trouble, model.get("trouble"));
    setAttributes(el, { "data-status": busy || "ready" });
  }

  function draw() {
    const frame = timeline.frame, now = frames[frame] ?? [], before = frames[frame - 1] ?? [];
    const states = views.map((view, i) => view.show(now[i] ?? -1, frame > 0 && now[i] === before[i], source));
    bar.refresh();
    setAttributes(el, { "data-frame": frame, "data-frames": frames.length });
    if (!tree.hidden && states[0]) tree.replaceChildren(...mergeTree(states[0], views[0].data?.splits ?? 1));
    const lines = states.map((state) => state?.stop?.line ?? 0);
    [...code.children].forEach((line, i) => {
      const who = lines.flatMap((at, side) => (at === i + 1 ? [side] : [])).join(" ");
      if ((line.getAttribute("data-at") ?? "") !== who) setAttributes(line, { "data-at": who || null });
    });
    reveal();
  }

  function reveal() {
    const at = code.querySelector("[data-at]");
    if (at instanceof HTMLElement) code.scrollTop = at.offsetTop - code.clientHeight / 2;
  }

  /** @param {import("./timeline.js").Cause} cause */
  function moved(cause) {
    draw();
    if (cause !== "model") saver.save(timeline.frame);
    if (cause !== "play") announcer.say(() => views.map((view) => `${view.label.textContent}: ${view.did.textContent}`).join(". "));
  }

  /** The next frame, that way, at which a side begins a tile. @param {number} way */
  function tile(way) {
    const sides = model.get("sides");
    for (let frame = timeline.frame + way; frame >= 0 && frame < frames.length; frame += way) {
      const begins = sides.some((/** @type {any} */ side, /** @type {number} */ i) =>
        frames[frame][i] !== frames[frame - 1]?.[i] && "tile" in (side.stops[frames[frame][i]]?.values ?? {}));
      if (begins) return frame;
    }
    return way > 0 ? frames.length - 1 : 0;
  }

  function ask() {
    const entries = table.value.split(/[\s,]+/).filter(Boolean).map(Number), wanted = model.get("original").table.length;
    if (entries.length !== wanted || !entries.every((entry) => Number.isInteger(entry) && Math.abs(entry) < 2 ** 31)) {
      setText(trouble, `The block table must be ${wanted} whole numbers.`);
      return;
    }
    change(entries, text.hidden ? model.get("source") : text.value);
  }

  /** @param {number[]} entries @param {string} kernels */
  function change(entries, kernels) {
    model.set("table", entries);
    model.set("source", kernels);
    model.save_changes();
  }

  function editing(/** @type {boolean} */ on) {
    text.hidden = !on;
    code.hidden = on;
    setAttributes(edit, { "aria-expanded": String(on) });
    setText(edit, on ? "Show where it is" : "Edit the kernel");
  }

  run.addEventListener("click", ask);
  table.addEventListener("keydown", (event) => { if (event.key === "Enter") ask(); });
  undo.addEventListener("click", () => {
    const { table: entries, source: kernels } = model.get("original");
    text.value = kernels;
    editing(false);
    change(entries, kernels);
  });
  edit.addEventListener("click", () => editing(Boolean(text.hidden)));
  for (const [button, way] of /** @type {[HTMLButtonElement, number][]} */ ([[tileBack, -1], [tileNext, 1]])) {
    button.addEventListener("click", (event) => timeline.seek(tile(way), "input", event.timeStamp));
  }
  el.addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    const by = target.matches("input[type=text], textarea, select") ? 0 : { ",": -1, ".": 1 }[event.key] ?? 0;
    if (by) timeline.seek(timeline.frame + by, "input", event.timeStamp);
  });

  const onStep = () => { if (!Saver.saving) timeline.seek(model.get("step"), "model"); };
  load();
  timeline.seek(model.get("step"), "model");
  draw();
  const stops = [
    onChange(model, ["sides"], load), onChange(model, ["status", "trouble", "table"], told), onChange(model, ["step"], onStep),
    whenGone(model, () => { gone = true; told(); }),
  ];
  const seen = new ResizeObserver(reveal); // while `render` runs, nothing has a size
  seen.observe(code);
  return () => {
    seen.disconnect();
    stops.forEach((stop) => stop());
    announcer.stop();
    saver.cancel();
    leave();
  };
}

export default { render };
