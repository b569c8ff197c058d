// Replays runs from stdin, as a page does, and prints what they hold at each frame.

import assert from "node:assert/strict";

import { decode, awayAt, fillOf, isKeyed, refsOf, seek, startOf, tablesOf } from "../../widgets/pagedlab_widgets/static/replay.js";
import { SWAPPED } from "../../widgets/pagedlab_widgets/static/events.js";
import { tellEvent } from "../../widgets/pagedlab_widgets/static/words.js";

let text = "";
for await (const piece of process.stdin) text += piece;
const shown = JSON.parse(text).map((run) => {
  const bytes = Buffer.from(run.events, "base64");
  const tape = decode({ ...run, events: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength) });
  const state = startOf(tape), tables = run.names.map((_, seq) => tablesOf(tape, seq));
  const frames = Array.from({ length: tape.frames }, (_, f) => {
    seek(tape, state, f);
    return {
      blocks: Array.from(state.slots, (slot, b) => [refsOf(slot), refsOf(slot) ? fillOf(slot) : 0, isKeyed(slot), refsOf(slot) ? tape.names[state.owners[b]] : null]),
      tables: Object.fromEntries(tables.map((at, seq) => [run.names[seq], at(f)]).filter(([, table]) => table.length)),
      swapped: [...awayAt(tape, f)].filter(([, where]) => where === SWAPPED).map(([seq]) => run.names[seq]).sort(),
    };
  });
  // Back and forth: what playing gives, any jump gives.
  const played = startOf(tape), jumped = startOf(tape);
  for (let f = 0, jump = 7; f < tape.frames; f++, jump = (jump * 31 + 11) % tape.frames) {
    seek(tape, jumped, jump);
    seek(tape, jumped, f);
    seek(tape, played, f);
    assert.deepEqual(jumped, played);
  }
  return { frames, told: Array.from(tape.kinds, (_, i) => tellEvent(tape, i)) };
});
process.stdout.write(JSON.stringify(shown));
