// Whom the reader follows: a key of colours where sequences are few, a field where they are many.

import { MARKS } from "./colours.js";
import { h, newId, setAttributes, setText } from "./dom.js";

const KEYED_UP_TO = 12, OFFERED = 500;

export class FollowBar {
  #followed = "";
  /** @type {string[]} */
  #names = [];

  /** @param {(name: string) => void} follow */
  constructor(follow) {
    this.follow = follow;
    const id = newId("names");
    this.chips = h("div", { class: "pl-chips" });
    this.field = h("input", { type: "search", list: id, placeholder: "nobody", "aria-label": "Follow a sequence", autocomplete: "off" });
    this.offered = h("datalist", { id });
    this.problem = h("span", { class: "pl-problem", role: "status" });
    this.element = h("div", { class: "pl-key", role: "group", "aria-label": "Follow a sequence" },
      h("span", { "aria-hidden": "true" }, "Follow"), this.chips, this.field, this.offered, this.problem);
    this.field.addEventListener("change", () => {
      const name = this.field.value, known = !name || this.#names.includes(name);
      setText(this.problem, known ? "" : "No sequence has that name.");
      if (known) follow(name);
    });
  }

  /** @param {string[]} names  of all runs shown, in the order of their colours */
  load(names) {
    this.#names = names;
    this.element.hidden = !names.length;
    const few = names.length <= KEYED_UP_TO;
    this.chips.hidden = !few;
    this.field.hidden = few;
    this.offered.replaceChildren(...(few ? [] : names.slice(0, OFFERED).map((value) => h("option", { value }))));
    this.chips.replaceChildren(...(few ? names : []).map((name, colour) => {
      const chip = h("button", { type: "button", class: "pl-chip" }, h("i", { class: "pl-swatch", "aria-hidden": "true", "data-colour": colour }), h("bdi", {}, name));
      chip.addEventListener("click", () => this.follow(this.#followed === name ? "" : name));
      return chip;
    }));
    this.show(this.#followed);
  }

  /** @param {string} followed */
  show(followed) {
    this.#followed = followed;
    [...this.chips.children].forEach((chip, i) => setAttributes(chip, { "aria-pressed": String(this.#names[i] === followed) }));
    if (this.field.value !== followed) this.field.value = followed;
  }

  /** @param {import("./colours.js").Theme} theme */
  paint({ looks }) {
    for (const swatch of this.chips.querySelectorAll("i")) {
      const look = looks[Number(swatch.dataset.colour) % looks.length];
      Object.assign(swatch.style, { background: look.solid, borderColor: look.edge, color: look.dot });
      setText(swatch, "\u00b7".repeat(look.mark % MARKS));
    }
  }
}
