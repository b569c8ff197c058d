// A chart of lines: an SVG to look at, a slider that reads every line out at one place, and the data as a table.

import { h, keepKeys, onChange, Saver, scroller, setAttributes, setText, svg, together } from "./dom.js";
import { format, nearest, scaleOf } from "./scale.js";
import { joinTimeline } from "./timeline.js";

/** @typedef {{name: string, x: number[], y: number[], kind: string, texts: string[], word: string, until: number | null}} Line */

const HIGH = 280, MARGIN = { top: 14, right: 16, bottom: 40, left: 72 }, FEW = 24;

/** What tells lines apart besides hue and dash, around a point. */
const MARKS = ["m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", "m-3.5 -3.5h7v7h-7z", "m0 -4.5l4.5 8h-9z", "m0 -5l5 5l-5 5l-5 -5z", "m-4 -4l8 8m0 -8l-8 8", "m0 -5v10m-5 -5h10", "m0 4.5l4.5 -8h-9z"];

/** @param {number} i @param {number} x @param {number} y */
const mark = (i, x, y) => svg("path", { class: "pl-mark", d: `M${x} ${y}${MARKS[i % MARKS.length]}` });

/** @param {Record<string, string | number>} place @param {string} text */
function label(place, text) {
  const element = svg("text", place);
  setText(element, text);
  return element;
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const title = h("span", { class: "pl-title" }), about = h("span", { class: "pl-about" });
  const drawing = svg("svg", { "aria-hidden": "true" }), legend = h("ul", { class: "pl-legend" });
  const slider = h("input", { type: "range", min: 0, step: 1 });
  const readout = h("p", { class: "pl-readout" });
  const table = h("table"), data = h("details", {}, h("summary", {}, "Data as a table"), scroller("Data", table));
  const word = h("span", { class: "pl-word" }), device = h("bdi"), status = h("span", { class: "pl-status", role: "status" });
  el.classList.add("pl-widget", "pl-chart");
  const box = h("div", { class: "pl-box", role: "group" }, title, about, legend, drawing, slider, readout, data);
  el.replaceChildren(box, h("div", { class: "pl-foot" }, word, device, status));
  keepKeys(el);
  const saver = new Saver(model, "cursor");
  const name = model.get("timeline"), shared = name ? joinTimeline(name, () => { locate(); point(); }) : null;

  /** @type {Line[]} */
  let lines = [];
  /** @type {number[]} */
  let places = [];
  let at = 0, width = 0;
  /** @type {(place: number) => number} */
  let left = () => 0;

  /** Where the reader is: on the timeline that others share, or where Python or the slider left it. */
  const locate = () => { at = nearest(places, shared?.timeline.frame ?? model.get("cursor") ?? places[at] ?? 0); };

  const show = () => {
    lines = model.get("lines");
    places = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
    setText(title, model.get("title"));
    setText(about, model.get("caption"));
    setText(word, model.get("word"));
    setText(device, model.get("device"));
    setText(status, model.get("status"));
    setAttributes(box, { "aria-label": model.get("title") });
    setAttributes(slider, { max: Math.max(0, places.length - 1), "aria-label": `${model.get("title")}: ${model.get("axes").x.label}` });
    setAttributes(el, { "data-lines": lines.length, "data-status": model.get("status") || null });
    slider.hidden = places.length < 2;
    legend.replaceChildren(...lines.map((line, i) => h("li", { class: `pl-line-${i}` }, sample(line, i), line.name, line.word ? ` (${line.word})` : null)));
    locate();
    draw();
    if (data.open) fill();
  };

  const draw = () => {
    const { x, y } = model.get("axes"), walls = model.get("walls");
    /** @param {"x" | "y"} name */
    const wallsAt = (name) => walls.map((/** @type {any} */ wall) => wall[name]).filter((/** @type {any} */ value) => value != null);
    const across = scaleOf([...places, ...wallsAt("x")], x), up = scaleOf([...lines.flatMap((line) => line.y), ...wallsAt("y")], y);
    const right = Math.max(MARGIN.left + 100, width - MARGIN.right), bottom = HIGH - MARGIN.bottom;
    left = (place) => MARGIN.left + across.share(place) * (right - MARGIN.left);
    /** @param {number} value */
    const top = (value) => bottom - up.share(value) * (bottom - MARGIN.top);
    setAttributes(drawing, { viewBox: `0 0 ${right + MARGIN.right} ${HIGH}`, height: HIGH });
    drawing.replaceChildren(
      ...up.ticks.map((tick) => svg("g", { class: "pl-tick" },
        svg("path", { d: `M${MARGIN.left} ${top(tick)}H${right}` }),
        label({ x: MARGIN.left - 6, y: top(tick) + 4, "text-anchor": "end" }, format(tick)))),
      ...across.ticks.map((tick) => svg("g", { class: "pl-tick" },
        svg("path", { d: `M${left(tick)} ${bottom}v4` }),
        label({ x: left(tick), y: bottom + 17, "text-anchor": "middle" }, format(tick)))),
      label({ x: (MARGIN.left + right) / 2, y: HIGH - 6, "text-anchor": "middle" }, x.label),
      label({ transform: `translate(13 ${(MARGIN.top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, y.label),
      ...lines.map((line, i) => drawLine(line, i, left, top)),
      ...walls.map((/** @type {any} */ wall, /** @type {number} */ i) => drawWall(wall, i, left, top, right, bottom)),
      svg("path", { class: "pl-cursor", d: "" }));
    point();
  };

  /** Read every line out at one place. */
  const point = (here = at) => {
    const place = places[here], cursor = drawing.querySelector(".pl-cursor");
    if (cursor) setAttributes(cursor, { d: places.length > 1 ? `M${left(place)} ${MARGIN.top}V${HIGH - MARGIN.bottom}` : "" });
    const there = lines.map((line) => [line.name, valueAt(line, place)]).filter(([, value]) => value);
    const text = places.length ? `${model.get("axes").x.label} ${format(place)}: ${there.map((pair) => pair.join(" ")).join("; ")}` : "";
    slider.value = String(here);
    setAttributes(slider, { "aria-valuetext": text });
    setText(readout, text);
    setAttributes(el, { "data-at": places.length ? place : null });
  };

  const fill = () => {
    table.replaceChildren(
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, model.get("axes").x.label), ...lines.map((line) => h("th", { scope: "col" }, line.name)))),
      h("tbody", {}, ...places.map((place) => h("tr", {}, h("th", { scope: "row" }, format(place)), ...lines.map((line) => h("td", {}, valueAt(line, place)))))));
  };

  /** The reader goes there. @param {number} next @param {Event} event */
  const choose = (next, event) => {
    if (shared) return shared.timeline.seek(places[next], "input", event.timeStamp);
    at = next;
    point();
    saver.save(places[at]);
  };
  slider.addEventListener("input", (event) => choose(Number(slider.value), event));
  /** @param {PointerEvent | MouseEvent} event */
  const under = (event) => nearest(places.map(left), event.clientX - drawing.getBoundingClientRect().left);
  drawing.addEventListener("pointermove", (event) => { if (places.length) point(under(/** @type {PointerEvent} */ (event))); });
  drawing.addEventListener("pointerleave", () => point());
  drawing.addEventListener("click", (event) => { if (places.length) choose(under(/** @type {MouseEvent} */ (event)), event); });
  data.addEventListener("toggle", () => { if (data.open) fill(); });

  const resized = new ResizeObserver(() => {
    if (el.clientWidth && Math.abs(el.clientWidth - 28 - width) > 1) { width = el.clientWidth - 28; draw(); }
  });
  resized.observe(el);
  const soon = together(show), traits = ["title", "caption", "word", "device", "status", "axes", "lines", "walls", "cursor"];
  const deaf = onChange(model, traits, () => { if (!Saver.saving) soon(); });
  show();
  return () => {
    saver.cancel();
    shared?.leave();
    resized.disconnect();
    deaf();
  };
}

/** @param {Line} line @param {number} place */
function valueAt({ x, y, texts }, place) {
  const i = x.indexOf(place);
  return i < 0 ? "" : texts[i] ?? format(y[i]);
}

/** @param {Line} line @param {number} i */
function sample(line, i) {
  const drawing = svg("svg", { viewBox: "0 0 34 12", width: 34, height: 12, "aria-hidden": "true" });
  if (line.kind !== "points") drawing.append(svg("path", { class: "pl-stroke", d: "M1 6H33" }));
  drawing.append(mark(i, 17, 6));
  return drawing;
}

/** @param {Line} line @param {number} i @param {(x: number) => number} left @param {(y: number) => number} top */
function drawLine(line, i, left, top) {
  const group = svg("g", { class: `pl-line-${i}` });
  const points = line.x.map((x, j) => [left(x), top(line.y[j])].map((value) => value.toFixed(1)));
  const known = line.until == null ? points.length : line.x.filter((x) => x <= Number(line.until)).length;
  for (const [part, beyond] of /** @type {const} */ ([[points.slice(0, known), false], [points.slice(Math.max(0, known - 1)), true]])) {
    const d = part.map((point, j) => `${j ? "L" : "M"}${point.join(" ")}`).join("");
    if (line.kind !== "points" && part.length > 1) group.append(svg("path", { class: "pl-stroke", "data-beyond": beyond, d }));
  }
  // Of many points some are marked, those of each line elsewhere, so that lines differ in more than hue.
  const every = points.length > FEW ? Math.ceil(points.length / 8) : 1, first = Math.floor((i * every) / MARKS.length);
  points.forEach(([x, y], j) => { if (j % every === first) group.append(mark(i, Number(x), Number(y))); });
  return group;
}

/** @param {any} wall @param {number} i @param {(x: number) => number} left @param {(y: number) => number} top @param {number} right @param {number} bottom */
function drawWall({ label: text, x, y }, i, left, top, right, bottom) {
  const d = x == null ? `M${MARGIN.left} ${top(y)}H${right}` : `M${left(x)} ${MARGIN.top}V${bottom}`;
  const far = x != null && left(x) > (MARGIN.left + right) / 2;
  const place = x == null ? { x: MARGIN.left + 6, y: top(y) - 5, "text-anchor": "start" } : { x: left(x) + (far ? -6 : 6), y: MARGIN.top + 26 + 16 * i, "text-anchor": far ? "end" : "start" };
  return svg("g", { class: "pl-wall" }, svg("path", { d }), label(place, text));
}

export default { render };
