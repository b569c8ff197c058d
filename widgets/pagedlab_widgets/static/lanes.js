// Who shares a transaction: the 32 lanes of a warp, each in the colour of the sector that it reads, over the 128-byte
// lines that the request touches. Colours repeat; the number of a sector tells two of one colour apart.

import { h, setText } from "./dom.js";
import { grouped, several } from "./words.js";

export const SECTOR = 32, LINE = 128;
const HUES = 6, MOST_LINES = 32;

/** @typedef {(number | null)[]} Request  the byte that each lane starts at; null: it is idle */

/** The sectors that a lane reads. @param {number | null} byte @param {number} width  bytes a lane */
export function sectorsOf(byte, width) {
  if (byte === null) return [];
  const first = Math.floor(byte / SECTOR), last = Math.floor((byte + width - 1) / SECTOR);
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

/** What a request touches: sectors with the lanes that share each, and lines. @param {Request} request @param {number} width */
export function touched(request, width) {
  /** @type {Map<number, number[]>} */
  const sectors = new Map();
  request.forEach((byte, lane) => {
    for (const sector of sectorsOf(byte, width)) sectors.set(sector, [...(sectors.get(sector) ?? []), lane]);
  });
  const lines = [...new Set([...sectors.keys()].map((sector) => Math.floor((sector * SECTOR) / LINE)))].sort((a, b) => a - b);
  return { sectors, lines };
}

/** The lanes of one request of several, and the buttons that choose it. */
export class Lanes {
  /** @type {Request[]} */
  #requests = [];
  #width = 0;
  #at = 0;

  constructor() {
    this.back = h("button", { type: "button", "aria-label": "Previous request" }, "\u2039");
    this.next = h("button", { type: "button", "aria-label": "Next request" }, "\u203a");
    this.where = h("span", { class: "pl-request", role: "status" });
    this.lanes = h("div", { class: "pl-lanes", role: "img" });
    this.lines = h("div", { class: "pl-lines", "aria-hidden": "true" });
    this.element = h("div", { class: "pl-lane-picture" }, h("div", { class: "pl-row" }, this.back, this.next, this.where), this.lanes, this.lines);
    this.back.addEventListener("click", () => this.#show(this.#at - 1));
    this.next.addEventListener("click", () => this.#show(this.#at + 1));
  }

  /** @param {Request[]} requests @param {number} width  bytes a lane */
  load(requests, width) {
    if (requests === this.#requests) return;
    this.#requests = requests;
    this.#width = width;
    this.#show(Math.min(this.#at, requests.length - 1));
  }

  /** @param {number} at */
  #show(at) {
    this.#at = Math.max(0, Math.min(this.#requests.length - 1, at));
    this.element.hidden = !this.#requests.length;
    if (!this.#requests.length) return;
    const request = this.#requests[this.#at], { sectors, lines } = touched(request, this.#width);
    const busy = request.filter((byte) => byte !== null).length, moved = SECTOR * sectors.size;
    this.back.setAttribute("aria-disabled", String(this.#at === 0));
    this.next.setAttribute("aria-disabled", String(this.#at === this.#requests.length - 1));
    const text = `request ${grouped(this.#at + 1)} of ${grouped(this.#requests.length)}: ${several(busy, "lane")} \u00d7 ${this.#width} B, ` +
      `${several(sectors.size, "sector")} (${grouped(moved)} B moved) in ${several(lines.length, "line")}`;
    setText(this.where, text);
    this.element.dataset.sectors = String(sectors.size);
    this.element.dataset.lines = String(lines.length);
    this.lanes.setAttribute("aria-label", `${text}. ${[...sectors].slice(0, 8).map(([sector, who]) => `Sector ${sector}: lanes ${who[0]} to ${who[who.length - 1]}`).join(". ")}`);
    this.lanes.replaceChildren(...request.map((byte, lane) => {
      const mine = sectorsOf(byte, this.#width);
      const shared = lane > 0 && mine.length && sectorsOf(request[lane - 1], this.#width)[0] === mine[0];
      return h("span", { class: `pl-lane ${hue(mine[0])}`, "data-shared": Boolean(shared), title: byte === null ? `lane ${lane}: idle` : `lane ${lane}: byte ${grouped(byte)}, sector ${mine.join(" and ")}` },
        h("b", {}, String(lane)), h("i", {}, mine.length ? `${mine[0]}` : "\u2013"));
    }));
    this.lines.replaceChildren(...lines.slice(0, MOST_LINES).map((line) => h("span", { class: "pl-line" }, h("b", {}, `line ${grouped(line)}`),
      ...Array.from({ length: LINE / SECTOR }, (_, i) => line * (LINE / SECTOR) + i).map((sector) => {
        const who = sectors.get(sector);
        return h("span", { class: `pl-sector ${who ? hue(sector) : ""}` }, who ? `${sector}` : "");
      }))), lines.length > MOST_LINES ? h("span", {}, `and ${lines.length - MOST_LINES} more lines`) : "");
  }
}

/** @param {number | undefined} sector */
const hue = (sector) => (sector === undefined ? "" : `pl-hue-${sector % HUES}`);
