// Names for the controls of ipywidgets, in every view of them that is or will be in the page.

import { onChange, setAttributes, together } from "./dom.js";

/** @param {{model: import("./dom.js").Model}} context */
function initialize({ model }) {
  const watched = new WeakSet();
  // A slider writes its own value text whenever it moves; ours is put back in its place.
  const inside = new MutationObserver(() => nameAll());
  // A control is in the page before it has its mark: watch for both, and look once for all that changed together.
  const page = new MutationObserver(together(() => nameAll(), requestAnimationFrame));

  const nameAll = () => {
    for (const [mark, name] of Object.entries(model.get("names"))) {
      for (const root of document.getElementsByClassName(mark)) {
        nameControls(root, String(name));
        if (watched.has(root)) continue;
        watched.add(root);
        inside.observe(root, { subtree: true, attributes: true, attributeFilter: ["aria-valuetext", "aria-label", "contenteditable"] });
      }
    }
  };
  const deaf = onChange(model, ["names"], nameAll);
  page.observe(document.body, { childList: true, subtree: true, attributes: true, attributeFilter: ["class"] });
  nameAll();
  return () => {
    page.disconnect();
    inside.disconnect();
    deaf();
  };
}

/** @param {Element} root  of one view of an ipywidgets control @param {string} name */
function nameControls(root, name) {
  put(root, { "data-lm-suppress-shortcuts": "true" });
  const handles = root.querySelectorAll('[role="slider"]'), readout = root.querySelector(".widget-readout");
  handles.forEach((handle, i) => {
    put(handle, { "aria-label": handles.length > 1 ? `${name}, ${i ? "to" : "from"}` : name });
    if (readout?.textContent) put(handle, { "aria-valuetext": readout.textContent });
  });
  if (readout?.hasAttribute("contenteditable")) put(readout, { role: "textbox", "aria-label": `${name}, value` });
  if (handles.length) return;
  const fields = root.querySelectorAll("input, select, textarea"), buttons = root.querySelectorAll("button");
  if (fields.length === 1) put(fields[0], { "aria-label": name });
  else if (fields.length + buttons.length) put(root, { role: root.querySelector('[type="radio"]') ? "radiogroup" : "group", "aria-label": name });
  else if (root.matches("button")) put(root, { "aria-label": name });
}

/**
 * Only what differs: setting an attribute calls the observers again.
 * @param {Element} element
 * @param {Record<string, string>} attributes
 */
function put(element, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (element.getAttribute(key) !== value) setAttributes(element, { [key]: value });
  }
}

export default { initialize, render() {} };
