// The colours a canvas paints with: a palette for sequences and the page's own foreground and background.

/** @typedef {[number, number, number]} Rgb */

/**
 * How the blocks of one sequence look.
 * @typedef {object} Look
 * @property {string} solid  where tokens are
 * @property {string} tint   held, but empty
 * @property {string} pale   the same where a block is too small for an edge
 * @property {string} edge   round the block
 * @property {string} dot
 * @property {number} mark   0 to 3 dots: how the sequences of one hue are told apart
 *
 * @typedef {object} Theme
 * @property {Look[]} looks
 * @property {{solid: string, tint: string}} trace  of curves
 * @property {Look} quiet    of sequences that the reader does not follow
 * @property {string} free
 * @property {string} ink    text and marks
 * @property {string} paper  what is behind
 * @property {string} muted  labels
 */

// Okabe and Ito's colours for all kinds of colour vision, without black. Neighbours differ in lightness too.
const HUES = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"];

/** How much of the ink is in the rim of a block, so that even yellow stands out from white. */
const EDGE = 0.42;

/** Sequences that get the same hue differ in one of so many marks (and, where a block is too small, in shade). */
export const MARKS = 4;

/** @param {Rgb} a @param {Rgb} b @param {number} share  of b @returns {Rgb} */
export const mix = (a, b, share) => /** @type {Rgb} */ (a.map((v, i) => Math.round(v + (b[i] - v) * share)));

/** @param {Rgb} rgb */
const css = (rgb) => `rgb(${rgb.join(" ")})`;

/** @type {CanvasRenderingContext2D | null} */
let probe = null;

/**
 * Any CSS colour as numbers: the canvas itself reads it, so every notation counts.
 * @param {string} colour
 * @returns {Rgb}
 */
function rgbOf(colour) {
  if (!probe) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1;
    probe = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { willReadFrequently: true }));
  }
  probe.fillStyle = colour;
  probe.fillRect(0, 0, 1, 1);
  return /** @type {Rgb} */ ([...probe.getImageData(0, 0, 1, 1).data.slice(0, 3)]);
}

/**
 * The theme as it is now at `element`, which must be in the document: elsewhere CSS variables read empty.
 * @param {Element} element
 * @returns {Theme}
 */
export function readTheme(element) {
  const style = getComputedStyle(element);
  /** @param {string} name @param {string} fallback */
  const read = (name, fallback) => rgbOf(style.getPropertyValue(name).trim() || fallback);
  const paper = read("--pl-surface", "white"), ink = read("--pl-ink", "black"), accent = read("--pl-accent", "#1976d2");
  /** @param {Rgb} solid @param {number} mark @param {Rgb} [hue] @returns {Look} */
  const lookOf = (solid, mark, hue = solid) => {
    /** @param {Rgb} towards @param {number} share */
    const shade = (towards, share) => css(mix(solid, towards, share));
    return { solid: css(solid), tint: shade(paper, 0.78), pale: shade(paper, 0.6), edge: css(mix(hue, ink, EDGE)), dot: shade(ink, 0.7), mark };
  };
  const looks = [];
  for (let mark = 0; mark < MARKS; mark++) {
    for (const hue of HUES.map(rgbOf)) looks.push(lookOf(mix(hue, mark % 2 ? paper : ink, [0, 0.22, 0.2, 0.4][mark]), mark, hue));
  }
  return { looks, quiet: { ...lookOf(mix(paper, ink, 0.4), 0), edge: css(mix(paper, ink, 0.4)) }, trace: { solid: css(mix(accent, paper, 0.35)), tint: css(mix(accent, paper, 0.8)) }, free: css(read("--pl-free", "#eee")), ink: css(ink), paper: css(paper), muted: css(read("--pl-muted", "#777")) };
}

/**
 * Call `changed` when the theme may have changed: JupyterLab's, VS Code's, the system's.
 * @param {() => void} changed
 * @returns {() => void}  stop watching
 */
export function watchTheme(changed) {
  const observer = new MutationObserver(changed);
  const attributes = ["class", "style", "data-theme", "data-jp-theme-light", "data-jp-theme-name", "data-vscode-theme-kind"];
  for (const element of [document.documentElement, document.body]) {
    observer.observe(element, { attributes: true, attributeFilter: attributes });
  }
  const queries = ["(prefers-color-scheme: dark)", "(forced-colors: active)"].map((query) => matchMedia(query));
  for (const query of queries) query.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    for (const query of queries) query.removeEventListener("change", changed);
  };
}
