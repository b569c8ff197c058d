// A run as data: decode what the kernel sent, go to any frame, say what is there. No page in here, so that
// node can test it.
//
// Beside each write the tape keeps what the block held just before. Going back is then as cheap as going on, and
// going anywhere costs as many steps as there are writes in between; no copies of the whole pool are needed.

/**
 * @typedef {object} WireTrace  one entry of the trait `panels`; the layout is told in trace.py
 * @property {string} label
 * @property {number} num_blocks
 * @property {number} block_size
 * @property {string[]} names
 * @property {DataView} offsets
 * @property {DataView} writes
 *
 * @typedef {object} Tape
 * @property {string} label
 * @property {number} numBlocks
 * @property {number} blockSize
 * @property {string[]} names
 * @property {number} frames
 * @property {Uint32Array} offsets       writes of frame f: offsets[f] .. offsets[f + 1]
 * @property {Uint16Array} blocks        per write: the block,
 * @property {Uint16Array} owners        who holds it from then on,
 * @property {Uint32Array} slots         and fill | refs << 16;
 * @property {Uint16Array} ownersBefore  and what was there before
 * @property {Uint32Array} slotsBefore
 * @property {Uint32Array} used          per frame: blocks in use,
 * @property {Uint32Array} stored        tokens stored,
 * @property {Uint32Array} shared        blocks held by several sequences
 *
 * @typedef {object} State  what every block holds after frame `at` (-1: before the first)
 * @property {number} at
 * @property {Uint16Array} owners
 * @property {Uint32Array} slots
 *
 * @typedef {{used: number, stored: number, held: number, shared: number, waste: number}} Counts
 */

/** @param {number} slot */
export const fillOf = (slot) => slot & 0xffff;

/** @param {number} slot */
export const refsOf = (slot) => slot >>> 16;

/**
 * @param {WireTrace} wire
 * @returns {Tape}
 */
export function decode(wire) {
  const frames = wire.offsets.byteLength / 4 - 1;
  const count = wire.writes.byteLength / 8;
  const tape = {
    label: wire.label,
    numBlocks: wire.num_blocks,
    blockSize: wire.block_size,
    names: wire.names,
    frames,
    offsets: new Uint32Array(frames + 1),
    blocks: new Uint16Array(count),
    owners: new Uint16Array(count),
    slots: new Uint32Array(count),
    ownersBefore: new Uint16Array(count),
    slotsBefore: new Uint32Array(count),
    used: new Uint32Array(frames),
    stored: new Uint32Array(frames),
    shared: new Uint32Array(frames),
  };
  for (let f = 0; f <= frames; f++) tape.offsets[f] = wire.offsets.getUint32(4 * f, true);
  for (let i = 0; i < count; i++) {
    const first = wire.writes.getUint32(8 * i, true);
    tape.blocks[i] = first & 0xffff;
    tape.owners[i] = first >>> 16;
    tape.slots[i] = wire.writes.getUint32(8 * i + 4, true);
  }
  rehearse(tape);
  return tape;
}

/**
 * Play the tape once, noting what each write replaces and what each frame adds up to.
 * @param {Tape} tape
 */
function rehearse(tape) {
  const state = startOf(tape);
  let used = 0, stored = 0, shared = 0;
  for (let f = 0; f < tape.frames; f++) {
    for (let i = tape.offsets[f]; i < tape.offsets[f + 1]; i++) {
      const block = tape.blocks[i], before = state.slots[block], after = tape.slots[i];
      tape.ownersBefore[i] = state.owners[block];
      tape.slotsBefore[i] = before;
      used += held(after) - held(before);
      stored += held(after) * fillOf(after) - held(before) * fillOf(before);
      shared += Number(refsOf(after) > 1) - Number(refsOf(before) > 1);
      state.owners[block] = tape.owners[i];
      state.slots[block] = after;
    }
    tape.used[f] = used;
    tape.stored[f] = stored;
    tape.shared[f] = shared;
  }
}

/** @param {number} slot */
const held = (slot) => Number(slot > 0xffff);

/**
 * The pool before the first frame: every block free.
 * @param {Tape} tape
 * @returns {State}
 */
export function startOf(tape) {
  return { at: -1, owners: new Uint16Array(tape.numBlocks), slots: new Uint32Array(tape.numBlocks) };
}

/**
 * Move `state` to `frame` (the last one at most), forth or back.
 * @param {Tape} tape
 * @param {State} state
 * @param {number} frame
 * @returns {[number, number]}  the writes passed on the way, first .. last + 1: no other block has changed
 */
export function seek(tape, state, frame) {
  const target = Math.max(-1, Math.min(tape.frames - 1, frame));
  const here = tape.offsets[state.at + 1], there = tape.offsets[target + 1];
  for (let i = here; i < there; i++) {
    state.owners[tape.blocks[i]] = tape.owners[i];
    state.slots[tape.blocks[i]] = tape.slots[i];
  }
  for (let i = here - 1; i >= there; i--) {
    state.owners[tape.blocks[i]] = tape.ownersBefore[i];
    state.slots[tape.blocks[i]] = tape.slotsBefore[i];
  }
  state.at = target;
  return [Math.min(here, there), Math.max(here, there)];
}

/**
 * @param {Tape} tape
 * @param {number} frame
 * @returns {Counts}
 */
export function countsAt(tape, frame) {
  const f = Math.min(frame, tape.frames - 1);
  if (f < 0) return { used: 0, stored: 0, held: 0, shared: 0, waste: 0 };
  const slots = tape.used[f] * tape.blockSize;
  return {
    used: tape.used[f],
    stored: tape.stored[f],
    held: slots,
    shared: tape.shared[f],
    waste: slots ? (slots - tape.stored[f]) / slots : 0,
  };
}

/** @param {number} value */
export const grouped = (value) => value.toLocaleString("en-US");

/** @param {number} share  0 to 1, shown with one decimal; what is not nothing never reads 0.0, what is not all never 100.0 */
export function percent(share) {
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  if (share < 1 && share >= 0.9995) return "> 99.9 %";
  return `${(100 * share).toFixed(1)} %`;
}

/**
 * One block in words: who holds it, and how full it is. Names come from files: the result is text, never markup.
 * @param {Tape} tape
 * @param {State} state
 * @param {number} block
 * @returns {{title: string, holder: string, detail: string}}
 */
export function describeBlock(tape, state, block) {
  const title = `Block ${grouped(block)}`, slot = state.slots[block], refs = refsOf(slot);
  if (!refs) return { title, holder: "free", detail: "" };
  const name = tape.names[state.owners[block]] ?? `sequence ${state.owners[block]}`;
  const others = refs - 1;
  const fill = fillOf(slot);
  const detail = fill
    ? `${grouped(fill)} of ${grouped(tape.blockSize)} slots store a token`
    : `held, none of its ${grouped(tape.blockSize)} slots stores a token`;
  return {
    title,
    holder: others ? `${name} and ${grouped(others)} other${others > 1 ? "s" : ""}` : name,
    detail: others ? `${detail}, shared by ${grouped(refs)}` : detail,
  };
}

/**
 * Pixels of a block's height that its tokens fill. Whatever stores a token shows one, only a full block looks full.
 * @param {number} fill
 * @param {number} blockSize
 * @param {number} height
 */
export function fillHeight(fill, blockSize, height) {
  if (!fill) return 0;
  if (fill >= blockSize) return height;
  return Math.max(1, Math.min(height - 1, Math.round((height * fill) / blockSize)));
}
