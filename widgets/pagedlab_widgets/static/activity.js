// One line about work in the background: what, how far, and a button that ends it.

import { h, keepKeys, onChange, setAttributes, setText } from "./dom.js";
import { wasGone, whenGone } from "./gone.js";

const GONE = "The kernel that computed this has stopped: run the cell again to go on.";

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const says = h("span", { class: "pl-says", role: "status", "aria-live": "polite" });
  const bar = h("progress", { "aria-label": "Progress" });
  const cancel = h("button", { type: "button" }, "Cancel");
  el.classList.add("pl-widget", "pl-activity");
  el.replaceChildren(bar, says, cancel);
  keepKeys(el);
  cancel.addEventListener("click", () => model.send("cancel"));

  // Whoever opens a page without its kernel left nothing under way; whoever loses a kernel may have.
  let gone = wasGone(el), lost = false;
  const show = () => {
    const text = model.get("text"), of = model.get("of"), works = Boolean(text) && !gone;
    setText(says, lost && text ? GONE : works ? `${text} …` : model.get("message"));
    setAttributes(bar, of ? { max: of, value: model.get("done") } : { max: null, value: null });
    bar.hidden = cancel.hidden = !works;
    setAttributes(el, { "data-state": lost && text ? "gone" : works ? "working" : "idle" });
  };
  const deaf = onChange(model, ["text", "message", "done", "of"], () => { gone = lost = false; show(); });
  const unwatch = whenGone(model, () => { gone = lost = true; show(); });
  show();
  return () => {
    unwatch();
    deaf();
  };
}

export default { render };
