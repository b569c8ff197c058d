// Small things that every widget needs of a page. Text goes in as text: there is no way to pass markup.

/** @typedef {{get(name: string): any, set(name: string, value: unknown): void, save_changes(): void, on(name: string, then: () => void): void, off(name: string, then: () => void): void}} Model */

/**
 * An element with attributes and children. A string child becomes a text node; `null` children are left out.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, string | number | boolean | null>} [attributes]  true: present; false or null: absent
 * @param {(Node | string | null)[]} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** @param {Element} element @param {Record<string, string | number | boolean | null>} attributes */
export function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * Set text only when it differs: an untouched node is not laid out again, nor read out again.
 * @param {Node} node
 * @param {string} text
 */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * A part of a drawing.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, string | number | boolean | null>} attributes
 * @param {Node[]} children
 */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(element, attributes);
  element.append(...children);
  return element;
}

/** A drawing of 16 by 16 for a button. @param {string} path  of an SVG path */
export const icon = (path) => svg("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true", focusable: "false" },
  svg("path", { d: path, fill: "currentColor" }));

/**
 * Keep the keys pressed inside `element` from JupyterLab, whose shortcuts would move to another cell. Its
 * listener comes first (it captures on the document) and looks for this attribute; others are stopped on the way up.
 * @param {HTMLElement} element
 */
export function keepKeys(element) {
  element.setAttribute("data-lm-suppress-shortcuts", "true");
  element.addEventListener("keydown", (event) => event.stopPropagation());
}

/** An id that no other element of the page has. @param {string} kind */
export const newId = (kind) => `pl-${kind}-${Math.random().toString(36).slice(2)}`;

/**
 * Call `then` whenever one of these traits changes.
 * @param {Model} model @param {string[]} traits @param {() => void} then @returns {() => void}  stop listening
 */
export function onChange(model, traits, then) {
  for (const trait of traits) model.on(`change:${trait}`, then);
  return () => { for (const trait of traits) model.off(`change:${trait}`, then); };
}

/** `then`, called once, soon, for all who ask for it together. @param {() => void} then @param {(then: () => void) => void} [soon] */
export function together(then, soon = queueMicrotask) {
  let due = false;
  return () => {
    if (!due) soon(() => { due = false; then(); });
    due = true;
  };
}

/** Call `then` once what was just drawn is on the screen. @param {() => void} then */
export function afterPaint(then) {
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => { channel.port1.close(); then(); };
    channel.port2.postMessage(null);
  });
}

/**
 * A frame that scrolls what does not fit, by keyboard too: it can be focused while there is something to scroll.
 * @param {string} label
 * @param {HTMLElement} child
 */
export function scroller(label, child) {
  const frame = h("div", { class: "pl-scroll" }, child);
  new ResizeObserver(() => {
    const wider = frame.scrollWidth > frame.clientWidth || frame.scrollHeight > frame.clientHeight;
    setAttributes(frame, wider ? { tabindex: 0, role: "region", "aria-label": label } : { tabindex: null, role: null, "aria-label": null });
  }).observe(frame);
  return frame;
}

export const prefersReducedMotion = () => globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches ?? false;

/**
 * A line for screen readers. What comes within 300 ms of the last is said once, as it ends: a dragged slider would
 * otherwise never stop talking.
 */
export class Announcer {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  constructor() {
    this.element = h("div", { class: "pl-hidden", role: "status", "aria-live": "polite" });
  }

  /** @param {() => string} text  asked for when it is said */
  say(text) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => setText(this.element, text()), 300);
  }

  stop() {
    clearTimeout(this.#timer);
  }
}

/**
 * A trait that the page writes back: at most one message in `wait` ms, the latest value wins. The model itself is
 * set only when the message leaves, or the kernel's echo of an older value would pull the page back to it.
 */
export class Saver {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #last = -Infinity;
  /** @type {unknown} */
  #value;
  /** True while any view sets its model, so that its siblings can tell that from a change made in Python. */
  static saving = false;

  /** @param {Model} model @param {string} name @param {number} [wait] */
  constructor(model, name, wait = 200) {
    this.model = model;
    this.name = name;
    this.wait = wait;
  }

  /** @param {unknown} value */
  save(value) {
    this.#value = value;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#last = performance.now();
      Saver.saving = true;
      this.model.set(this.name, this.#value);
      Saver.saving = false;
      this.model.save_changes();
    }, Math.max(0, this.#last + this.wait - performance.now()));
  }

  cancel() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

/** Where widgets of one page, each a module of its own, find what the reader guessed. */
const GUESSES = Symbol.for("pagedlab.guesses");

/** The guesses of this page by key, and who wants to hear of them. @returns {{given: Map<string, number | null>, told: EventTarget}} */
const guesses = () => /** @type {any} */ (globalThis)[GUESSES] ??= { given: new Map(), told: new EventTarget() };

/** @param {string} key @returns {number | null} */
export const guessOf = (key) => guesses().given.get(key) ?? null;

/** @param {string} key @param {number | null} value  null: taken back */
export function tellGuess(key, value) {
  guesses().given.set(key, value);
  guesses().told.dispatchEvent(new Event("guess"));
}

/** @param {() => void} then @returns {() => void}  stop listening */
export function hearGuesses(then) {
  const { told } = guesses();
  told.addEventListener("guess", then);
  return () => told.removeEventListener("guess", then);
}
