// What is drawn over a map: where a table's entries point, and what a step did to single blocks.

import { h, newId, prefersReducedMotion, setAttributes, svg } from "./dom.js";

/** @typedef {{left: number, top: number, size: number}} Place  of a block, in CSS pixels */
/** @typedef {{from: [number, number], to: [number, number], strong: boolean}} Link */

/** @param {HTMLElement} element @param {Place} place */
export function putAt({ style }, { left, top, size }) {
  Object.assign(style, { left: `${left}px`, top: `${top}px`, width: `${size}px`, height: `${size}px` });
}

/** A layer over something, with a head for its arrows. */
export function layer() {
  const id = newId("head");
  const head = svg("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
    svg("path", { d: "M0 0l8 4-8 4z", fill: "context-stroke" }));
  const lines = svg("g", {});
  const element = svg("svg", { class: "pl-layer", "aria-hidden": "true" }, svg("defs", {}, head), lines);
  return { element, lines, head: `url(#${id})` };
}

/** Curves from the rows of a table to blocks. @param {ReturnType<typeof layer>} over @param {Link[]} links */
export function drawLinks({ lines, head }, links) {
  while (lines.children.length > links.length) lines.lastElementChild?.remove();
  while (lines.children.length < links.length) lines.append(svg("path", {}));
  links.forEach(({ from: [x, y], to: [u, v], strong }, i) => {
    const bend = Math.min(80, Math.max(24, Math.abs(x - u) / 2));
    setAttributes(lines.children[i], {
      class: strong ? "pl-link pl-strong" : "pl-link", "marker-end": strong ? head : null,
      d: `M${x} ${y}C${x - bend} ${y} ${u + bend} ${v} ${u} ${v}`,
    });
  });
}

/**
 * Copies as arrows from block to block, blocks that lost their key with a dashed rim.
 * @param {ReturnType<typeof layer>} over @param {[Place, Place][]} copies @param {Place[]} evicted
 */
export function drawMoves({ lines, head }, copies, evicted) {
  lines.replaceChildren(
    ...evicted.map(({ left, top, size }) => svg("rect", { class: "pl-evicted", x: left, y: top, width: size, height: size })),
    ...copies.map(([a, b]) => {
      const [x, y, u, v] = [a.left + a.size / 2, a.top + a.size / 2, b.left + b.size / 2, b.top + b.size / 2];
      const lift = 0.25 * Math.hypot(u - x, v - y), angle = Math.atan2(v - y, u - x);
      const middle = [(x + u) / 2 + lift * Math.sin(angle), (y + v) / 2 - lift * Math.cos(angle)];
      return svg("path", { class: "pl-copy", "marker-end": head, d: `M${x} ${y}Q${middle[0]} ${middle[1]} ${u} ${v}` });
    }));
}

/**
 * A picture of one block that moves to where its copy is.
 * @param {HTMLElement} over @param {HTMLCanvasElement} canvas @param {[Place, Place]} way @param {number} duration  ms
 */
export function fly(over, canvas, [from, to], duration) {
  if (prefersReducedMotion() || !over.animate) return;
  const ratio = canvas.width / (canvas.clientWidth || 1), side = Math.max(1, Math.round(from.size * ratio));
  const ghost = h("canvas", { class: "pl-ghost", width: side, height: side, "aria-hidden": "true" });
  ghost.getContext("2d")?.drawImage(canvas, from.left * ratio, from.top * ratio, side, side, 0, 0, side, side);
  putAt(ghost, from);
  over.append(ghost);
  const away = `translate(${to.left - from.left}px, ${to.top - from.top}px)`;
  const flight = ghost.animate([{ transform: "none" }, { transform: `${away} scale(1.15)`, offset: 0.85 }, { transform: away }], { duration, easing: "ease-in-out" });
  flight.onfinish = flight.oncancel = () => ghost.remove();
}
