// A question, a number, a button: the reader commits to a guess before the answer is shown.

import { guessOf, h, keepKeys, newId, onChange, setAttributes, setText, tellGuess } from "./dom.js";
import { wasGone, whenGone } from "./gone.js";

const ALONE = "Kept in this page only: there is no kernel that would write it down.";

/** @typedef {import("./dom.js").Model} Model */

/**
 * The answer further down hears of the guess whether or not the question is in sight. A cell that was run again has left
 * an older question behind: what is in sight counts.
 * @param {{model: Model}} context
 */
function initialize({ model }) {
  const tell = () => tellGuess(model.get("key"), model.get("guess") ?? null); // a browser's Python sends no null
  if (guessOf(model.get("key")) === null) tell();
  return onChange(model, ["guess"], tell);
}

/** @param {{model: Model, el: HTMLElement}} context */
function render({ model, el }) {
  const id = newId("predict");
  const question = h("label", { class: "pl-question", for: id });
  const input = h("input", { type: "number", step: "any", id, "aria-describedby": `${id}-range`, autocomplete: "off" });
  const unit = h("span", { class: "pl-unit" }), range = h("span", { class: "pl-range", id: `${id}-range` });
  const commit = h("button", { type: "submit", class: "pl-commit" }, "Commit");
  const guess = h("output", { class: "pl-guess" }), change = h("button", { type: "button", class: "pl-change" }, "Change my guess");
  const message = h("p", { class: "pl-message", role: "alert" });
  const open = h("div", { class: "pl-row" }, input, unit, commit, range), closed = h("div", { class: "pl-row" }, guess, change);
  const form = h("form", { novalidate: true }, question, open, closed, message);
  el.classList.add("pl-widget", "pl-predict");
  el.replaceChildren(form);
  keepKeys(el);

  let gone = wasGone(el);
  const unwatch = whenGone(model, () => { gone = true; });
  const show = () => {
    const value = model.get("guess"), committed = value !== null && value !== undefined, suffix = model.get("unit");
    setText(question, model.get("question"));
    setText(unit, suffix);
    setText(range, `between ${model.get("minimum")} and ${model.get("maximum")}`);
    setText(guess, committed ? `Your guess: ${value}${suffix ? ` ${suffix}` : ""}` : "");
    setText(message, gone && committed ? ALONE : model.get("message"));
    setAttributes(input, { min: model.get("minimum"), max: model.get("maximum") });
    open.hidden = committed;
    closed.hidden = !committed;
    if (committed) input.value = String(value);
    setAttributes(el, { "data-state": committed ? "committed" : "open", "data-guess": committed ? value : null });
  };

  /** @param {number | null} value */
  const save = (value) => {
    model.set("guess", value);
    model.save_changes();
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const value = input.value.trim() === "" ? NaN : Number(input.value);
    if (!(value >= model.get("minimum") && value <= model.get("maximum"))) {
      setText(message, `Give a number between ${model.get("minimum")} and ${model.get("maximum")}.`);
      input.focus();
      return;
    }
    save(value);
    change.focus();
  });
  change.addEventListener("click", () => {
    save(null);
    input.focus();
    input.select();
  });

  const deaf = onChange(model, ["question", "unit", "minimum", "maximum", "guess", "message"], show);
  show();
  tellGuess(model.get("key"), model.get("guess") ?? null);
  return () => {
    unwatch();
    deaf();
  };
}

export default { initialize, render };
