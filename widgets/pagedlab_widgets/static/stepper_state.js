// What a kernel knows at a stop: the lines up to it, added up. Every number is the kernel's own; nothing is computed
// here but where a tile of scores lies.

/**
 * @typedef {{kind: string, tensor: string, width: number, requests: (number | null)[][], bytes: number, sectors: number, lines: number, rows: [string, number, number][], slots?: number[], entries?: number[]}} Access
 * @typedef {{kernel: string, program: number[], line: number, accesses: Access[], values: Record<string, any>}} Stop
 * @typedef {{label: string, word: string, about: string, paged: boolean, table: number[], block_size: number, num_blocks: number, token_slots: number[], splits: number, stops: Stop[], trouble: string[]}} Side
 *
 * @typedef {{from: number, to: number, top: unknown[], share: unknown[]}} Split  tokens `from` up to `to`; by query head
 * @typedef {object} State
 * @property {Stop | null} stop
 * @property {number} tile      the first token of the tile, -1 before the first
 * @property {boolean} merging
 * @property {Set<number>} read   slots that this program read before
 * @property {Set<number>} lit    slots that this stop touches
 * @property {Set<number>} entries  of the table that it reads
 * @property {Access | null} access  the latest load or store of this program, begun at line `from`
 * @property {number} from
 * @property {unknown[][]} scores  by query head and token; holes where there is none yet
 * @property {Record<string, any>} values  the latest of each variable in this program
 * @property {Map<number, Split>} splits
 * @property {Map<number, Record<string, any>>} merged  by query head
 */

/** A kernel's number, as JSON has it or as text. @param {unknown} value */
export const number = (value) => (value === "-inf" ? -Infinity : value === "inf" ? Infinity : typeof value === "number" ? value : NaN);

/** @param {Side} side @param {number} at  index of the stop; -1: nothing ran yet @returns {State} */
export function stateAt(side, at) {
  /** @type {State} */
  const state = {
    stop: null, tile: -1, merging: false, read: new Set(), lit: new Set(), entries: new Set(), access: null, from: 0, scores: [], values: {}, splits: new Map(), merged: new Map(),
  };
  for (const stop of side.stops.slice(0, at + 1)) advance(state, stop, side.token_slots.length);
  return state;
}

/** @param {State} state @param {Stop} stop @param {number} tokens  of the sequence */
function advance(state, stop, tokens) {
  const before = state.stop, { values, program } = stop;
  if (!before || before.kernel !== stop.kernel || `${before.program}` !== `${program}`) {
    Object.assign(state, { tile: -1, merging: stop.kernel === "merge", read: new Set(), access: null, scores: [], values: {} });
    state.lit.clear();
  }
  for (const slot of state.lit) state.read.add(slot);
  state.stop = stop;
  state.lit = new Set(stop.accesses.flatMap((access) => access.slots ?? []));
  if (stop.accesses.length) Object.assign(state, { access: stop.accesses[stop.accesses.length - 1], from: stop.line });
  state.entries = new Set(stop.accesses.flatMap((access) => access.entries ?? []));
  if ("tile" in values) delete state.values.block; // it was the last tile's
  Object.assign(state.values, values);
  if (state.merging) {
    state.merged.set(program[0], { ...state.merged.get(program[0]), ...values });
    return;
  }
  if (typeof values.tile === "number") state.tile = values.tile;
  const tile = Math.max(0, state.tile);
  for (const [head, row] of (Array.isArray(values.score) ? values.score : []).entries()) {
    state.scores[head] ??= [];
    row.slice(0, tokens - tile).forEach((/** @type {unknown} */ score, /** @type {number} */ i) => { state.scores[head][tile + i] = score; });
  }
  const split = state.splits.get(program[2]) ?? { from: tile, to: tile, top: [], share: [] };
  if (values.score) split.to = Math.min(tokens, tile + values.score[0].length);
  if (typeof values.tile === "number" && !split.top.length) split.from = values.tile;
  if (values.top && state.tile >= 0) split.top = values.top;
  if (values.share && state.tile >= 0) split.share = values.share;
  state.splits.set(program[2], split);
}
