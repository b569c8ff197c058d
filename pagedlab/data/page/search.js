// The search of a site. Its index was made with the pages and is read when first asked for; what it finds are links, and their words are text.

/** @typedef {[kind: string, title: string, text: string, address: string]} Entry */

const MOST = 12, BEFORE = 50, SHOWN = 140;

/** 0 where a text lacks a word, 1 where it has it, 2 where some word of it begins so. @param {string} text @param {string} word */
function has(text, word) {
  const at = text.toLowerCase().indexOf(word);
  return at < 0 ? 0 : at && /[\p{L}\p{N}]/u.test(text[at - 1]) ? 1 : 2;
}

/** The entries that have every word, or else as many as any has, and how many that is; those with the words in their titles, and side by side, first. @param {Entry[]} index @param {string[]} words */
export function find(index, words) {
  const phrase = words.join(" ");
  const rated = index.map((entry) => {
    const [, title, text] = entry, exact = title.toLowerCase() === phrase ? 9 : 0;
    const worth = words.map((word) => 3 * has(title, word) || has(text, word));
    return { entry, here: worth.filter(Boolean).length, worth: exact + has(text, phrase) + worth.reduce((a, b) => a + b, 0) };
  });
  const most = Math.max(0, ...rated.map(({ here }) => here));
  const best = rated.filter(({ here }) => here && here === most).sort((a, b) => b.worth - a.worth);
  return { found: best.map(({ entry }) => entry), most };
}

/** A text with the words marked. @param {string} text @param {string[]} words */
function marked(text, words) {
  const pattern = new RegExp(`(${words.map((word) => word.replace(/[^\p{L}\p{N}]/gu, "\\$&")).join("|")})`, "iu");
  return text.split(pattern).map((part, i) => {
    const element = document.createElement(i % 2 ? "mark" : "span");
    element.textContent = part;
    return element;
  });
}

/** What surrounds the words where they stand together, or else the first of them. @param {string} text @param {string[]} words */
function excerpt(text, words) {
  const low = text.toLowerCase(), together = low.indexOf(words.join(" "));
  const places = words.map((word) => low.indexOf(word)).filter((at) => at >= 0);
  const from = Math.max(0, (together < 0 ? Math.min(...places, text.length) : together) - BEFORE);
  const start = from && from + BEFORE < text.length ? text.indexOf(" ", from) + 1 : 0;
  return (start ? "… " : "") + text.slice(start, start + SHOWN) + (start + SHOWN < text.length ? " …" : "");
}

const form = /** @type {HTMLFormElement} */ (document.querySelector("form[role=search]"));
const [input, status, list] = /** @type {[HTMLInputElement, HTMLElement, HTMLElement]} */ ([...form.children]);
/** @type {Promise<Entry[]> | null} */
let index = null;
/** @type {() => Promise<Entry[]>} */
const read = () => index ??= import(new URL(form.dataset.index ?? "", location.href).href).then((made) => made.default);

async function show() {
  const asked = input.value, words = asked.toLowerCase().split(/\s+/).filter(Boolean);
  const { found, most } = find(words.length ? await read() : [], words);
  if (input.value !== asked) return;
  const some = most && most < words.length ? ` with ${most} of ${words.length} words` : "";
  status.textContent = words.length ? `${found.length || "nothing"} found${some}` : "";
  list.replaceChildren(...found.slice(0, MOST).map(([kind, title, text, address]) => {
    const item = document.createElement("li"), link = document.createElement("a"), small = document.createElement("small");
    link.href = address;
    small.append(`${kind}: `, ...marked(excerpt(text, words), words));
    link.append(...marked(title, words), small);
    item.append(link);
    return item;
  }));
}

/** @param {KeyboardEvent} event */
function move(event) {
  const places = [input, ...list.querySelectorAll("a")], at = places.indexOf(/** @type {any} */ (document.activeElement));
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) places[Math.max(0, Math.min(places.length - 1, at + step))].focus();
  else if (event.key === "Escape") { input.value = ""; input.focus(); void show(); }
  else return;
  event.preventDefault();
}

form.hidden = false;
input.addEventListener("input", show);
form.addEventListener("keydown", move);
form.addEventListener("submit", (event) => { event.preventDefault(); list.querySelector("a")?.click(); });
form.addEventListener("focusout", ({ relatedTarget }) => { if (!form.contains(/** @type {Node | null} */ (relatedTarget))) list.hidden = true; });
form.addEventListener("focusin", () => { list.hidden = false; });
list.addEventListener("click", () => { list.hidden = true; });
document.addEventListener("keydown", (event) => {
  const typing = /** @type {HTMLElement} */ (event.target).closest?.("input, select, textarea, [contenteditable]");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  input.focus();
  input.select();
});
