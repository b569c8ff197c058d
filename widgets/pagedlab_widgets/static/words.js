// A run in words. Names come from files: what is told is text, never markup.

import {
  ALLOCATE, APPEND, CACHE, COPY, EVICT, FORK, HIT, KINDS, NOTE, PREEMPT, RELEASE, RESET, Reader, SWAP_IN, SWAP_OUT,
} from "./events.js";
import { eventsOf, fillOf, isKeyed, refsOf } from "./replay.js";

/** @typedef {import("./replay.js").Tape} Tape */

/** @param {number} value */
export const grouped = (value) => value.toLocaleString("en-US");

/** @param {number} share  0 to 1, shown with one decimal; what is not nothing never reads 0.0, what is not all never 100.0 */
export function percent(share) {
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  if (share < 1 && share >= 0.9995) return "> 99.9 %";
  return `${(100 * share).toFixed(1)} %`;
}

/**
 * One block in words: who holds it, and how full it is.
 * @param {Tape} tape @param {import("./replay.js").State} state @param {number} block
 * @returns {{title: string, holder: string, detail: string}}
 */
export function describeBlock(tape, state, block) {
  const title = `Block ${grouped(block)}`, slot = state.slots[block], refs = refsOf(slot);
  const name = nameOf(tape, state.owners[block]);
  if (!refs) return { title, holder: "free", detail: isKeyed(slot) ? `still cached, as ${name} left it` : "" };
  const others = refs - 1, fill = fillOf(slot), slots = `${grouped(tape.blockSize)} slots`;
  const stored = fill ? `${grouped(fill)} of ${slots} store a token` : `held, none of its ${slots} stores a token`;
  const detail = [stored, others ? `shared by ${grouped(refs)}` : "", isKeyed(slot) ? "cached" : ""].filter(Boolean).join(", ");
  return { title, holder: others ? `${name} and ${several(others, "other")}` : name, detail };
}

const LONGEST = 48, BIDI = /[\u0590-\u08ff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufdff\ufe70-\ufeff]/;

/** The name of a sequence inside a line: not longer than the line, and turning nothing around it. @param {Tape} tape @param {number} seq */
export function nameOf(tape, seq) {
  const name = tape.names[seq] ?? `sequence ${seq}`, short = name.length > LONGEST ? `${name.slice(0, LONGEST)}…` : name;
  return BIDI.test(short) ? `\u2068${short}\u2069` : short;
}

/** One event in words. @param {Tape} tape @param {number} event */
export const tellEvent = (tape, event) => describe(new Reader(tape.wire, tape.places[event]), (seq) => nameOf(tape, seq));

const SHOWN = 4; // blocks named in one line

/** @param {number[]} blocks */
function named(blocks) {
  const known = blocks.filter((block) => block >= 0), few = known.slice(0, SHOWN).join(", ");
  return `block${known.length === 1 ? "" : "s"} ${known.length > SHOWN ? `${few} and ${known.length - SHOWN} more` : few || "none"}`;
}

/** @param {number} count @param {string} noun */
export const several = (count, noun) => `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;

/** @param {Reader} reader  at the event @param {(seq: number) => string} name @returns {string} */
function describe(reader, name) {
  const kind = reader.next();
  if (kind === RESET) return "every block loses its key";
  if (kind === NOTE) {
    reader.next();
    const who = name(reader.next()), tokens = reader.next();
    return tokens ? `${who}: ${several(tokens, "token")}` : who;
  }
  const seq = reader.next(), who = name(seq);
  switch (kind) {
    case ALLOCATE: return `${who}: ${several(reader.next(), "token")} in ${named(reader.list())}`;
    case APPEND: {
      const tokens = several(reader.next(), "token"), blocks = reader.list();
      return `${who}: ${tokens}${blocks.length ? `, new ${named(blocks)}` : ""}`;
    }
    case COPY: return `${who}: entry ${reader.next()}, block ${reader.next()} copied to block ${reader.next()}`;
    case FORK: {
      const parent = name(reader.next());
      reader.next();
      return `${who} shares ${several(reader.next(), "block")} of ${parent}`;
    }
    case RELEASE: return `${who}: ${(reader.next(), several(reader.next(), "block"))} left of the window`;
    case PREEMPT: return `${who}: ${several(reader.next(), "token")} to compute again`;
    case SWAP_OUT: return `${who} to the host`;
    case SWAP_IN: return `${who} back in ${named(reader.list())}`;
    case CACHE: return `${who}: a key for ${named(reader.list())}`;
    case EVICT: return `${named(reader.list())}: key lost to ${who}`;
    case HIT: return `${who}: ${several(reader.next(), "token")} found in ${named(reader.list())}`;
    default: return who;
  }
}

/**
 * What happened in a frame: the kind of its one event and the event in words, or how many there were of each kind.
 * @param {Tape} tape @param {number} frame @returns {[string, string]}
 */
export function tellFrame(tape, frame) {
  const [first, end] = eventsOf(tape, frame);
  if (first === end) return ["", frame < tape.frames ? "" : "This run has ended."];
  if (end - first === 1) return [KINDS[tape.kinds[first]], tellEvent(tape, first)];
  /** @type {Map<number, number>} */
  const counts = new Map();
  for (let i = first; i < end; i++) counts.set(tape.kinds[i], (counts.get(tape.kinds[i]) ?? 0) + 1);
  const texts = [...counts].map(([kind, count]) => `${grouped(count)} ${KINDS[kind]}`);
  return texts.length > 1 ? [`${grouped(end - first)} events`, texts.join(", ")] : [texts[0], ""];
}
