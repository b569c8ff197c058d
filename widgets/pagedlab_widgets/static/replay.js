// A run as data: decode what the kernel sent, go to any frame, say what is there. No page in here, so that
// node can test it.
//
// The events are replayed once, when a run arrives. Beside each change of a block the tape keeps what the block held just
// before. Going back is then as cheap as going on, and going anywhere costs as many steps as there are changes in
// between; no copies of the whole pool are needed.

import { COPY, CUT, END, EVICT, HERE, NOTE, Pool, Reader, WRITE } from "./events.js";

/**
 * @typedef {object} WireTrace  one entry of the trait `panels`; the layout is told in trace.py
 * @property {string} label
 * @property {number} num_blocks
 * @property {number} block_size
 * @property {string[]} names
 * @property {number} frames
 * @property {DataView} events
 *
 * @typedef {object} Tape
 * @property {string} label
 * @property {number} numBlocks
 * @property {number} blockSize
 * @property {string[]} names
 * @property {Uint16Array} colours       of each sequence: by number, unless somebody says otherwise
 * @property {number} frames
 * @property {DataView} wire
 * @property {Uint32Array} offsets       changes of frame f: offsets[f] .. offsets[f + 1]
 * @property {Uint16Array} blocks        per change: the block,
 * @property {Uint16Array} owners        who holds it from then on,
 * @property {Uint32Array} slots         and fill | refs << 16 | keyed << 31;
 * @property {Uint16Array} ownersBefore  and what was there before
 * @property {Uint32Array} slotsBefore
 * @property {Uint32Array} eventOffsets  events of frame f, as above
 * @property {Uint8Array} kinds          per event: its kind,
 * @property {Uint16Array} seqs          whom it is about,
 * @property {Uint32Array} places        and where on the wire the rest of it is
 * @property {{frames: Uint32Array, seqs: Uint16Array, entries: Uint16Array, blocks: Int32Array}} tables  changes of tables
 * @property {{frames: Uint32Array, seqs: Uint16Array, states: Uint8Array}} statuses  sequences that left without being done
 * @property {Uint32Array} used          per frame: blocks in use,
 * @property {Uint32Array} stored        tokens stored,
 * @property {Uint32Array} shared        blocks held by several sequences,
 * @property {Uint32Array} kept          blocks that are free and still have a key
 *
 * @typedef {object} State  what every block holds after frame `at` (-1: before the first)
 * @property {number} at
 * @property {Uint16Array} owners
 * @property {Uint32Array} slots
 *
 * @typedef {{used: number, stored: number, held: number, shared: number, kept: number, waste: number}} Counts
 */

/** @param {number} slot */
export const fillOf = (slot) => slot & 0xffff;

/** @param {number} slot */
export const refsOf = (slot) => (slot >>> 16) & 0x7fff;

/** Whether a prompt could find the block. @param {number} slot */
export const isKeyed = (slot) => slot > 0x7fffffff;

/** As many rows of numbers as come, by column. @template {Record<string, new (length: number) => any>} T */
class Rows {
  /** @param {T} types  of array, by the name of the column */
  constructor(types) {
    this.types = Object.entries(types);
    this.columns = this.types.map(([, Type]) => new Type(256));
    this.length = 0;
  }

  /** @param {number[]} row */
  push(...row) {
    const at = this.length++;
    if (at === this.columns[0].length) this.#grow();
    for (let i = 0; i < row.length; i++) this.columns[i][at] = row[i];
  }

  #grow() {
    this.columns = this.types.map(([, Type], i) => {
      const large = new Type(2 * this.columns[i].length);
      large.set(this.columns[i]);
      return large;
    });
  }

  /** @returns {{[name in keyof T]: InstanceType<T[name]>}} */
  byName() {
    return /** @type {any} */ (Object.fromEntries(this.types.map(([name], i) => [name, this.columns[i].subarray(0, this.length)])));
  }
}

/** @param {WireTrace} wire @returns {Tape} */
export function decode(wire) {
  const { frames, num_blocks: numBlocks, block_size: blockSize, label, names } = wire;
  const [byte, short, word] = [Uint8Array, Uint16Array, Uint32Array];
  const changes = new Rows({ blocks: short, owners: short, slots: word, ownersBefore: short, slotsBefore: word });
  const events = new Rows({ kinds: byte, seqs: short, places: word });
  const tables = new Rows({ frames: word, seqs: short, entries: short, blocks: Int32Array });
  const statuses = new Rows({ frames: word, seqs: short, states: byte });
  const starts = new Rows({ offsets: word, eventOffsets: word }), counts = new Rows({ used: word, stored: word, shared: word, kept: word });
  const now = { owners: new Uint16Array(numBlocks), slots: new Uint32Array(numBlocks) };
  let frame = 0, used = 0, stored = 0, shared = 0, kept = 0;
  const pool = new Pool(numBlocks, blockSize, {
    block(block, owner, fill, refs, keyed) {
      const before = now.slots[block], after = (fill | (refs << 16) | (keyed << 31)) >>> 0;
      changes.push(block, owner, after, now.owners[block], before);
      now.owners[block] = owner;
      now.slots[block] = after;
      used += held(after) - held(before);
      stored += held(after) * fillOf(after) - held(before) * fillOf(before);
      shared += Number(refsOf(after) > 1) - Number(refsOf(before) > 1);
      kept += Number(isKept(after)) - Number(isKept(before));
    },
    table: (seq, entry, block) => tables.push(frame, seq, entry, block),
    status: (seq, state) => statuses.push(frame, seq, state),
  });
  starts.push(0, 0);
  for (const reader = new Reader(wire.events); frame < frames;) {
    const place = reader.at, kind = reader.next();
    if (kind === END) {
      starts.push(changes.length, events.length);
      counts.push(used, stored, shared, kept);
      frame++;
      continue;
    }
    const shown = kind === NOTE ? reader.next() : kind, seq = pool.apply(kind, reader);
    if (kind !== WRITE) events.push(shown, seq, place);
  }
  return {
    label, numBlocks, blockSize, names, colours: Uint16Array.from(names, (_, i) => i), frames, wire: wire.events,
    ...changes.byName(), ...events.byName(), ...starts.byName(), ...counts.byName(), tables: tables.byName(), statuses: statuses.byName(),
  };
}

/** @param {number} slot */
const held = (slot) => Number(refsOf(slot) > 0);

/** Free, but with a key: a prompt may still find what it holds. @param {number} slot */
export const isKept = (slot) => isKeyed(slot) && !refsOf(slot);

/** The pool before the first frame: every block free. @param {Tape} tape @returns {State} */
export function startOf(tape) {
  return { at: -1, owners: new Uint16Array(tape.numBlocks), slots: new Uint32Array(tape.numBlocks) };
}

/**
 * Move `state` to `frame` (the last one at most), forth or back.
 * @param {Tape} tape @param {State} state @param {number} frame
 * @returns {[number, number]}  the changes passed on the way, first .. last + 1: no other block has changed
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

/** How many of `frames`, which never fall, are at most `frame`. @param {Uint32Array} frames @param {number} frame */
export function countUpTo(frames, frame) {
  let low = 0, high = frames.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (frames[middle] <= frame) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The block tables of one sequence, at any frame.
 * @param {Tape} tape @param {number} seq
 * @returns {(frame: number) => number[]}  blocks by entry; `LEFT` where the window has left them behind
 */
export function tablesOf(tape, seq) {
  const { frames, seqs, entries, blocks } = tape.tables;
  /** @type {number[]} */
  const mine = [];
  for (let i = 0; i < seqs.length; i++) if (seqs[i] === seq) mine.push(i);
  const when = Uint32Array.from(mine, (i) => frames[i]);
  return (frame) => {
    /** @type {number[]} */
    const table = [];
    for (const i of mine.slice(0, countUpTo(when, frame))) {
      if (blocks[i] === CUT) table.length = entries[i];
      else table[entries[i]] = blocks[i];
    }
    return table;
  };
}

/**
 * Sequences that have left without being done: on the host, or to be computed again.
 * @param {Tape} tape @param {number} frame
 * @returns {Map<number, number>}  sequence to `SWAPPED` or `PREEMPTED`
 */
export function awayAt({ statuses }, frame) {
  /** @type {Map<number, number>} */
  const away = new Map();
  for (let i = 0, end = countUpTo(statuses.frames, frame); i < end; i++) {
    if (statuses.states[i] === HERE) away.delete(statuses.seqs[i]);
    else away.set(statuses.seqs[i], statuses.states[i]);
  }
  return away;
}

/** The events of a frame, first .. last + 1. @param {Tape} tape @param {number} frame @returns {[number, number]} */
export function eventsOf(tape, frame) {
  const f = Math.max(0, Math.min(tape.frames - 1, frame));
  return frame < tape.frames ? [tape.eventOffsets[f], tape.eventOffsets[f + 1]] : [0, 0];
}

/**
 * What a step did to single blocks: copies, and blocks that lost their key.
 * @param {Tape} tape @param {number} frame
 * @returns {{copies: [number, number][], evicted: number[]}}
 */
export function movesOf(tape, frame) {
  /** @type {[number, number][]} */
  const copies = [];
  /** @type {number[]} */
  const evicted = [];
  for (let [i, end] = eventsOf(tape, frame); i < end; i++) {
    if (tape.kinds[i] !== COPY && tape.kinds[i] !== EVICT) continue;
    const reader = new Reader(tape.wire, tape.places[i]);
    reader.next();
    reader.next();
    if (tape.kinds[i] === EVICT) evicted.push(...reader.list());
    else copies.push((reader.next(), [reader.next(), reader.next()]));
  }
  return { copies, evicted };
}

/** @param {Tape} tape @param {number} frame @returns {Counts} */
export function countsAt(tape, frame) {
  const f = Math.min(frame, tape.frames - 1);
  if (f < 0) return { used: 0, stored: 0, held: 0, shared: 0, kept: 0, waste: 0 };
  const used = tape.used[f], stored = tape.stored[f], held = used * tape.blockSize;
  return { used, stored, held, shared: tape.shared[f], kept: tape.kept[f], waste: held ? (held - stored) / held : 0 };
}

/**
 * Pixels of a block's height that its tokens fill. Whatever stores a token shows one, only a full block looks full.
 * @param {number} fill @param {number} blockSize @param {number} height
 */
export function fillHeight(fill, blockSize, height) {
  if (!fill) return 0;
  if (fill >= blockSize) return height;
  return Math.max(1, Math.min(height - 1, Math.round((height * fill) / blockSize)));
}
