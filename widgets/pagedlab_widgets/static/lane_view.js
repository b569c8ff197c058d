// Requests of one kernel or several, to compare: choose a case, then a request of it.

import { h, keepKeys, newId, onChange, setAttributes, setText } from "./dom.js";
import { Lanes } from "./lanes.js";

/** @param {{model: import("./dom.js").Model, el: HTMLElement}} context */
function render({ model, el }) {
  const id = newId("lanes"), lanes = new Lanes();
  const choice = h("select", { id }), label = h("label", { for: id }, "Load"), word = h("span", { class: "pl-word" });
  const total = h("p", { class: "pl-total" });
  el.classList.add("pl-widget", "pl-lane-view");
  el.replaceChildren(h("div", { class: "pl-row" }, label, choice, word), total, lanes.element);
  keepKeys(el);
  const show = () => {
    /** @type {{label: string, width: number, requests: import("./lanes.js").Request[], about: string}[]} */
    const cases = model.get("cases");
    if (choice.options.length !== cases.length || cases.some((each, i) => choice.options[i].text !== each.label)) {
      choice.replaceChildren(...cases.map((each, i) => h("option", { value: i }, each.label)));
    }
    const at = Math.max(0, Math.min(cases.length - 1, model.get("chosen")));
    choice.value = String(at);
    setText(word, model.get("word"));
    setText(total, cases[at].about);
    setAttributes(el, { "data-chosen": at });
    lanes.load(cases[at].requests, cases[at].width);
  };
  choice.addEventListener("change", () => {
    model.set("chosen", Number(choice.value));
    model.save_changes();
    show();
  });
  show();
  return onChange(model, ["cases", "chosen", "word"], show);
}

export default { render };
