// Blocks on a canvas: where each goes, how it looks, and painting only those that look different from before.

import { fillHeight, fillOf, isKeyed, isKept, refsOf } from "./replay.js";

/** @typedef {{cell: number, gap: number, columns: number, rows: number, gutter: number, ratio: number}} Grid  in device pixels */

// CSS pixels of a cell; few blocks are drawn large, and in rows of 16 at most.
const LARGEST = 24, LARGEST_OF_FEW = 40, FEW = 64, SMALLEST = 3, LONGEST_OF_FEW = 16;

/**
 * The grid for `blocks` in `width` by `height` (CSS pixels): cells as large as both allow, then, if cells nearly as
 * large fill the width better, those. Where even the smallest are too tall, the map grows downwards. Rows begin at
 * numbers that people can count on from: multiples of 8, or of 4 where there is little room.
 * @param {{blocks: number, width: number, height: number, ratio: number, columns: number, gutter: number}} room  `columns` 0: choose
 * @returns {Grid}
 */
export function fit({ blocks, width, height, ratio, columns, gutter }) {
  const inside = Math.max(1, Math.floor((width - gutter) * ratio));
  const smallest = Math.round(SMALLEST * ratio), largest = Math.round((blocks > FEW ? LARGEST : LARGEST_OF_FEW) * ratio);
  /** @param {number} across */
  const cellOf = (across) => Math.min(largest, Math.floor(inside / across));
  const unit = inside >= 16 * smallest ? 8 : 4, widest = blocks > FEW ? Math.max(unit, Math.floor(inside / smallest)) : LONGEST_OF_FEW;
  let best = columns || Math.min(blocks, widest - (widest % unit)), roomiest = 0;
  for (let across = Math.min(unit, blocks); !columns && across <= Math.min(blocks, widest); across += unit) {
    const cell = cellOf(across), tall = Math.ceil(blocks / across) * cell <= height * ratio;
    if (!tall) continue;
    roomiest ||= cell;
    if (cell < 0.85 * roomiest) break;
    if (cell === roomiest || across * cell > best * cellOf(best)) best = across;
  }
  const cell = Math.max(1, cellOf(best));
  return { cell, gap: gapOf(cell), columns: best, rows: Math.ceil(blocks / best), gutter: Math.round(gutter * ratio), ratio };
}

/** @param {number} cell */
const gapOf = (cell) => (cell >= 4 ? Math.max(1, Math.round(cell / 14)) : 0);

const LARGEST_ZOOMED = 56, LARGEST_CANVAS = 1 << 24; // CSS pixels of a cell; device pixels of a canvas

/**
 * The same grid with cells `zoom` times as large, or as large as a canvas can bear.
 * @param {Grid} grid @param {number} zoom @returns {Grid}
 */
export function enlarge(grid, zoom) {
  const most = Math.min(LARGEST_ZOOMED * grid.ratio, Math.sqrt(LARGEST_CANVAS / (grid.columns * grid.rows)));
  const cell = Math.max(grid.cell, Math.floor(Math.min(grid.cell * zoom, most)));
  return { ...grid, cell, gap: gapOf(cell) };
}

/** @typedef {import("./colours.js").Look} Look */
/** @typedef {{tape: import("./replay.js").Tape, grid: Grid, theme: import("./colours.js").Theme}} Scene  what is painted, where and how */

/** Paints the blocks of one state on one canvas and remembers what it painted. */
export class Painter {
  /** @type {Scene | null} */
  #scene = null;
  #owners = new Uint16Array(0);
  #slots = new Uint32Array(0);
  #lit = new Uint8Array(0);
  /** Blocks of the sequence that the reader follows; null when none is followed. @type {Uint8Array | null} */
  lit = null;

  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  }

  get columns() {
    return this.#scene?.grid.columns ?? 1;
  }

  /**
   * Paint everything anew: another run, another size, another theme.
   * @param {Scene} scene @param {import("./replay.js").State} state
   */
  reset(scene, state) {
    this.#scene = scene;
    this.#owners = state.owners.slice();
    this.#slots = state.slots.slice();
    this.#lit = this.lit?.slice() ?? new Uint8Array(state.slots.length).fill(1);
    const { grid, tape } = scene, width = grid.gutter + grid.columns * grid.cell, height = grid.rows * grid.cell;
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    else this.context.clearRect(0, 0, width, height);
    this.canvas.style.width = `${width / grid.ratio}px`;
    this.canvas.style.height = `${height / grid.ratio}px`;
    this.#labels(scene);
    for (let block = 0; block < tape.numBlocks; block++) this.#paint(scene, block);
  }

  /**
   * Paint the blocks that changed among those that writes `first` .. `end` touched.
   * @param {import("./replay.js").State} state @param {number} first @param {number} end @returns {number}  blocks painted
   */
  update(state, first, end) {
    const scene = this.#scene;
    if (!scene) return 0;
    const { tape } = scene;
    let painted = 0;
    /** @param {number} block */
    const refresh = (block) => {
      const lit = this.lit?.[block] ?? 1;
      if (this.#slots[block] === state.slots[block] && this.#owners[block] === state.owners[block] && this.#lit[block] === lit) return;
      this.#lit[block] = lit;
      this.#slots[block] = state.slots[block];
      this.#owners[block] = state.owners[block];
      this.#paint(scene, block);
      painted++;
    };
    if (end - first < tape.numBlocks) for (let i = first; i < end; i++) refresh(tape.blocks[i]);
    else for (let block = 0; block < tape.numBlocks; block++) refresh(block);
    return painted;
  }

  /** The block under a point of the page, or -1. @param {number} clientX @param {number} clientY */
  blockAt(clientX, clientY) {
    if (!this.#scene) return -1;
    const { grid, tape } = this.#scene, box = this.canvas.getBoundingClientRect();
    const scale = box.width ? this.canvas.width / box.width : 1;
    const column = Math.floor(((clientX - box.left) * scale - grid.gutter) / grid.cell);
    const row = Math.floor(((clientY - box.top) * scale) / grid.cell);
    const block = row * grid.columns + column;
    return column >= 0 && column < grid.columns && row >= 0 && block < tape.numBlocks ? block : -1;
  }

  /** Where a block is on the canvas, in CSS pixels; null before anything is painted. @param {number} block */
  placeOf(block) {
    if (!this.#scene) return null;
    const { cell, gap, columns, gutter, ratio } = this.#scene.grid;
    return {
      left: (gutter + (block % columns) * cell) / ratio,
      top: (Math.floor(block / columns) * cell) / ratio,
      size: (cell - gap) / ratio,
    };
  }

  /** The first block of a row, every few rows, in the gutter. @param {Scene} scene */
  #labels({ grid: { cell, columns, rows, gutter, ratio }, theme }) {
    const { context } = this, every = Math.ceil((20 * ratio) / cell);
    context.font = `${10 * ratio}px ${getComputedStyle(this.canvas).fontFamily || "sans-serif"}`;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillStyle = theme.muted;
    for (let row = 0; row < rows; row += every) {
      context.fillText(String(row * columns), gutter - 5 * ratio, Math.max(6 * ratio, (row + 0.5) * cell));
    }
  }

  /** @param {string} colour @param {number} x @param {number} y @param {number} width @param {number} height */
  #fill(colour, x, y, width, height) {
    this.context.fillStyle = colour;
    this.context.fillRect(x, y, width, height);
  }

  /** @param {Scene} scene @param {number} block */
  #paint({ tape, grid, theme }, block) {
    const slot = this.#slots[block], refs = refsOf(slot), size = grid.cell - grid.gap;
    const x = grid.gutter + (block % grid.columns) * grid.cell, y = Math.floor(block / grid.columns) * grid.cell;
    const look = this.#lit[block] ? theme.looks[tape.colours[this.#owners[block]] % theme.looks.length] : theme.quiet;
    if (!refs) {
      this.#fill(theme.free, x, y, size, size);
      if (isKept(slot)) this.#hatch(look, x, y, size);
      return;
    }
    const rim = size >= 5 ? Math.max(1, Math.round(size / 18)) : 0, inner = size - 2 * rim;
    if (rim) this.#fill(look.edge, x, y, size, size);
    const filled = fillHeight(fillOf(slot), tape.blockSize, inner);
    if (filled < inner) this.#fill(rim ? look.tint : look.pale, x + rim, y + rim, inner, inner - filled);
    if (filled) this.#fill(look.solid, x + rim, y + rim + inner - filled, inner, filled);
    if (look.mark && inner >= 8) this.#dots(look, x + rim, y + rim, inner);
    if (isKeyed(slot) && inner >= 8) this.#fill(theme.paper, x + 2 * rim, y + size - 3 * rim, Math.round(inner / 2), rim);
    if (refs > 1) this.#corner(theme, x, y, size, size >= 15 * grid.ratio ? refs : 0);
  }

  /**
   * Free, but still cached: lines in the colour of the sequence that left it; half the block where it is small.
   * @param {Look} look @param {number} x @param {number} y @param {number} size
   */
  #hatch(look, x, y, size) {
    const { context } = this;
    if (size < 7) return this.#fill(look.pale, x, y + (size >> 1), size, size - (size >> 1));
    context.strokeStyle = look.edge;
    context.lineWidth = Math.max(1, size / 14);
    context.beginPath();
    for (const part of [0.35, 0.7, 1]) {
      context.moveTo(x + 1, y + part * size - 1);
      context.lineTo(x + part * size - 1, y + 1);
    }
    for (const part of [0.35, 0.7]) {
      context.moveTo(x + part * size + 1, y + size - 1);
      context.lineTo(x + size - 1, y + part * size + 1);
    }
    context.stroke();
  }

  /**
   * One, two or three dots tell the sequences of one hue apart.
   * @param {Look} look @param {number} x @param {number} y @param {number} inner
   */
  #dots(look, x, y, inner) {
    const dot = Math.max(2, Math.round(inner / 7)), step = Math.max(dot + 1, Math.round(inner / 4));
    const left = x + Math.round((inner - dot - (look.mark - 1) * step) / 2), top = y + Math.round((inner - dot) / 2);
    for (let k = 0; k < look.mark; k++) this.#fill(look.dot, left + k * step, top, dot, dot);
  }

  /**
   * A block that several sequences share has a dark corner, rimmed so that it stands out on any colour.
   * @param {import("./colours.js").Theme} theme @param {number} x @param {number} y @param {number} size
   * @param {number} refs  written into the corner; 0 where there is no room
   */
  #corner(theme, x, y, size, refs) {
    const { context } = this, leg = Math.max(2, Math.round(size * 0.55)), sloped = !refs && size >= 8;
    /** @type {[string, number][]} */
    const layers = size >= 8 ? [[theme.paper, leg + 1], [theme.ink, leg]] : [[theme.ink, leg]];
    for (const [colour, side] of layers) {
      context.fillStyle = colour;
      if (!sloped) {
        context.fillRect(x + size - side, y, side, side);
        continue;
      }
      context.beginPath();
      context.moveTo(x + size - side, y);
      context.lineTo(x + size, y);
      context.lineTo(x + size, y + side);
      context.fill();
    }
    if (!refs) return;
    context.fillStyle = theme.paper;
    context.font = `bold ${Math.round(leg * 0.9)}px sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(refs > 9 ? "+" : String(refs), x + size - leg / 2, y + leg / 2 + 0.5);
  }
}
