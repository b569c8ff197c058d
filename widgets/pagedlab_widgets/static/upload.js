// A button that takes a file and sends it piece by piece, each when the kernel asks for it.

import { h, keepKeys, setAttributes, setText } from "./dom.js";
import { wasGone, whenGone } from "./gone.js";

/** @param {number} bytes */
const mib = (bytes) => `${Math.ceil(bytes / 2 ** 20)} MiB`;

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const input = h("input", { type: "file", accept: model.get("accept"), hidden: true, tabindex: -1 });
  const button = h("button", { type: "button" }, model.get("label"));
  const says = h("span", { class: "pl-says", role: "status", "aria-live": "polite" });
  el.classList.add("pl-widget", "pl-upload");
  el.replaceChildren(button, input, says);
  keepKeys(el);
  /** @type {File | null} */
  let file = null;
  let gone = wasGone(el);

  const show = (text = "") => {
    setText(says, text);
    setAttributes(el, { "data-state": file ? "sending" : "idle" });
    setAttributes(button, { "aria-disabled": file ? "true" : null });
  };
  /** @param {{want: number | null}} message  the byte to go on from; null: the file is done with */
  const answer = async ({ want }) => {
    if (!file || want === null) {
      file = null;
      show();
      return;
    }
    show(`${Math.floor((100 * want) / file.size)} % sent`);
    const piece = await file.slice(want, want + model.get("piece")).arrayBuffer();
    model.send({ at: want }, undefined, [piece]);
  };
  button.addEventListener("click", () => { if (!file) input.click(); });
  input.addEventListener("change", () => {
    file = gone ? null : input.files?.[0] ?? null;
    input.value = ""; // the same file may be chosen again, edited
    if (!file) return show(gone ? "There is no kernel to read it: run the cell again." : "");
    if (file.size > model.get("most")) {
      const says = `${file.name} has ${mib(file.size)}, at most ${mib(model.get("most"))} travel from here: give its path in a cell instead.`;
      file = null;
      return show(says);
    }
    show("0 % sent");
    model.send({ name: file.name, size: file.size });
  });
  model.on("msg:custom", answer);
  const stop = whenGone(model, () => { file = null; gone = true; show(); });
  show();
  return () => {
    stop();
    model.off("msg:custom", answer);
  };
}

export default { render };
