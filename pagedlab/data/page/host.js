// Stands in for the kernel and for Jupyter: shows the widgets of a page with the state they were saved with. A widget that is a
// module of its own runs as it does in Jupyter; a control that asks the kernel is shown as it stood, and says so.

/** @typedef {{name: string, state: Record<string, any>, buffers?: {path: (string | number)[], data: string}[]}} Saved */

const read = document.getElementById("data")?.textContent ?? "{}";
/** @type {{models: Record<string, Saved>, modules: Record<string, string>}} */
const data = JSON.parse(read);
const REFERENCE = "IPY_MODEL_", GONE = "jupyter-widgets-disconnected";
const ASKS = "This control asks a kernel: run the lesson with \u201cpagedlab lab\u201d to use it.";

/** @param {string} text */
function bytesOf(text) {
  const decoded = atob(text), bytes = new Uint8Array(decoded.length);
  for (let i = 0; i < decoded.length; i++) bytes[i] = decoded.charCodeAt(i);
  return new DataView(bytes.buffer);
}

/** What a widget's module knows of its model in Jupyter, as far as a page can be it. */
class Model {
  /** @type {Map<string, Set<(...args: any[]) => void>>} */
  #listeners = new Map();
  /** Called when the widget would need the kernel. */
  asked = () => {};

  /** @param {Saved} saved */
  constructor({ name, state, buffers = [] }) {
    this.name = name;
    this.state = state;
    for (const { path, data: text } of buffers) {
      let at = state;
      for (const key of path.slice(0, -1)) at = at[key];
      at[path[path.length - 1]] = bytesOf(text);
    }
    this.widget_manager = { get_model: async (/** @type {string} */ id) => modelOf(id) };
  }

  /** @param {string} key */
  get(key) {
    return this.state[key];
  }

  /** @param {string} key @param {any} value */
  set(key, value) {
    if (this.state[key] === value) return;
    this.state[key] = value;
    this.#tell(`change:${key}`, value);
    this.#tell("change", value);
  }

  /** @param {string} event @param {(...args: any[]) => void} then */
  on(event, then) {
    this.#listeners.set(event, (this.#listeners.get(event) ?? new Set()).add(then));
  }

  /** @param {string} event @param {(...args: any[]) => void} [then] */
  off(event, then) {
    if (then) this.#listeners.get(event)?.delete(then);
    else this.#listeners.delete(event);
  }

  save_changes() {}

  send() {
    this.asked();
  }

  /** @param {string} event @param {any} value */
  #tell(event, value) {
    for (const then of [...this.#listeners.get(event) ?? []]) then(this, value);
  }
}

/** @type {Map<string, Model>} */
const models = new Map();

/** @param {string} reference */
function modelOf(reference) {
  const id = reference.replace(REFERENCE, "");
  if (!models.has(id) && data.models[id]) models.set(id, new Model(data.models[id]));
  return models.get(id) ?? null;
}

/** @type {Map<string, Promise<any>>} */
const modules = new Map();

/** @param {string} name  inside the page, or beside it */
function moduleOf(name) {
  if (!modules.has(name)) {
    const inside = document.getElementById(name)?.textContent;
    const url = inside ? URL.createObjectURL(new Blob([JSON.parse(inside)], { type: "text/javascript" })) : new URL(data.modules[name], location.href).href;
    modules.set(name, import(url).then(({ default: made }) => (typeof made === "function" ? made() : made)));
  }
  return /** @type {Promise<any>} */ (modules.get(name));
}

/** @type {WeakMap<Model, Promise<void>>} */
const begun = new WeakMap();

/** @param {Model} model */
async function begin(model) {
  const widget = await moduleOf(model.get("_module"));
  if (!begun.has(model)) begun.set(model, Promise.resolve(widget.initialize?.({ model })).then(() => {}));
  await begun.get(model);
  return widget;
}

/** @param {string} text @param {string} [kind] */
function note(text, kind = "note") {
  const element = document.createElement("p");
  element.className = kind;
  element.textContent = text;
  return element;
}

/** Show a model and all that it holds. @param {string} reference @param {HTMLElement} parent @returns {Promise<void>} */
async function show(reference, parent) {
  const model = modelOf(reference), layout = model?.get("layout");
  if (!model || (layout && modelOf(layout)?.get("display") === "none")) return;
  const element = document.createElement("div");
  element.classList.add(GONE, ...model.get("_dom_classes") ?? []);
  parent.append(element);
  if (model.get("_module")) {
    let told = false;
    model.asked = () => {
      if (!told) element.after(note("That needs a kernel: run the lesson with \u201cpagedlab lab\u201d."));
      told = true;
    };
    const widget = await begin(model);
    await widget.render?.({ model, el: element });
  } else if (Array.isArray(model.get("children"))) {
    element.classList.add("box", model.name.startsWith("H") ? "across" : "down");
    for (const child of model.get("children")) await show(child, element);
    if (element.querySelector(":scope > .control")) element.append(note(ASKS));
  } else {
    showControl(model, element);
  }
}

/** A control of ipywidgets, as it stood. @param {Model} model @param {HTMLElement} element */
function showControl(model, element) {
  const value = model.get("value"), label = model.get("description"), options = model.get("_options_labels");
  if (/HTML|Label/.test(model.name)) {
    element.append(new DOMParser().parseFromString(String(value ?? ""), "text/html").body);
    return;
  }
  element.classList.add("control");
  const said = options && model.get("index") !== null ? options[model.get("index")] : ["object", "boolean"].includes(typeof value) ? "" : value;
  const shown = said === undefined || said === "" ? label : `${label}: ${said}`;
  element.append(note(shown || model.name.replace("Model", ""), "value"));
}

/** What ties two attributes together in the page. @param {Model} link */
function tie(link) {
  const [source, from] = link.get("source"), [target, to] = link.get("target"), a = modelOf(source), b = modelOf(target);
  if (!a || !b) return;
  a.on(`change:${from}`, () => b.set(to, a.get(from)));
  if (link.name === "LinkModel") b.on(`change:${to}`, () => a.set(from, b.get(to)));
}

/** Draw plotly's figures in the colours of the page. */
function plot() {
  const plotly = /** @type {any} */ (globalThis).Plotly, style = getComputedStyle(document.body);
  for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".plot"))) {
    const { data: traces, layout = {} } = JSON.parse(element.dataset.figure ?? "{}"), colour = style.color;
    const axis = { color: colour, gridcolor: style.getPropertyValue("--jp-border-color2") };
    const themed = { ...layout, template: {}, paper_bgcolor: "transparent", plot_bgcolor: "transparent", font: { ...layout.font, color: colour }, xaxis: { ...layout.xaxis, ...axis }, yaxis: { ...layout.yaxis, ...axis } };
    element.setAttribute("aria-label", layout.title?.text ?? [layout.yaxis?.title?.text, layout.xaxis?.title?.text].filter(Boolean).join(", by "));
    plotly?.react(element, traces, themed, { displaylogo: false, responsive: true, displayModeBar: false });
  }
}

/** @param {boolean} dark */
function theme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.body.dataset.jpThemeLight = String(!dark);
  const button = document.getElementById("theme");
  if (button) button.textContent = dark ? "Light" : "Dark";
  plot();
}

/** What the reader chose, on this page or on one beside it; a page from a file may not be allowed to keep it. @param {string} [chosen] */
function kept(chosen) {
  try {
    if (chosen) localStorage.setItem("pagedlab-theme", chosen);
    return localStorage.getItem("pagedlab-theme");
  } catch {
    return null;
  }
}

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
prefersDark.addEventListener("change", () => theme(prefersDark.matches));
document.getElementById("theme")?.addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme !== "dark";
  kept(dark ? "dark" : "light");
  theme(dark);
});
theme((kept() ?? (prefersDark.matches ? "dark" : "light")) === "dark");
for (const [id, { name }] of Object.entries(data.models)) {
  const model = /^(Directional)?LinkModel$/.test(name) ? modelOf(id) : null;
  if (model) tie(model);
}
for (const place of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-model]"))) {
  try {
    await show(place.dataset.model ?? "", place);
  } catch (error) {
    place.append(note(`This widget cannot be shown: ${error}`));
    console.error(error);
  }
}
document.documentElement.dataset.ready = "true";

export {};
