// What the stepper knows at a stop, and which lanes share a sector.

import assert from "node:assert/strict";
import { test } from "node:test";

import { sectorsOf, touched } from "../../widgets/pagedlab_widgets/static/lanes.js";
import { number, stateAt } from "../../widgets/pagedlab_widgets/static/stepper_state.js";

const load = (tensor, at) => ({ kind: "load", tensor, width: 16, requests: [], bytes: 64, sectors: 2, lines: 1, rows: [], ...at });
const stop = (program, line, values = {}, ...accesses) => ({ kernel: "attention", program, line, accesses, values });

const side = {
  label: "", word: "computed", about: "", paged: true, table: [2, 0], block_size: 4, num_blocks: 3, token_slots: [8, 9, 10, 11, 0, 1], splits: 2, trouble: [],
  stops: [
    stop([0, 0, 0], 1, { top: ["-inf"], share: [0] }),
    stop([0, 0, 0], 2, { tile: 0 }),
    stop([0, 0, 0], 3, {}, load("table", { entries: [0] })),
    stop([0, 0, 0], 4, {}, load("keys", { slots: [8, 9, 10, 11] })),
    stop([0, 0, 0], 5, { score: [[1, 3, 2, -1]] }),
    stop([0, 0, 0], 6, { top: [3], share: [1.5] }),
    stop([0, 0, 1], 2, { tile: 4 }),
    stop([0, 0, 1], 4, {}, load("keys", { slots: [0, 1] })),
    stop([0, 0, 1], 5, { score: [[5, 4, "-inf", "-inf"]] }),
    stop([0, 0, 1], 6, { top: [5], share: [1.2] }),
    { ...stop([0, 0, 0], 9, { part_lse: [3.4, 5.2], weight: [0.2, 1] }), kernel: "merge" },
    { ...stop([0, 0, 0], 10, { result: [0.5] }), kernel: "merge" },
  ],
};

test("slots are lit at their load, and read from then on", () => {
  assert.deepEqual([...stateAt(side, 3).lit], [8, 9, 10, 11]);
  const after = stateAt(side, 4);
  assert.deepEqual([[...after.lit], [...after.read]], [[], [8, 9, 10, 11]]);
  assert.deepEqual([...stateAt(side, 2).entries], [0]);
  assert.equal(after.access.tensor, "keys");
  assert.equal(after.from, 4);
});

test("scores lie at their tokens, and past the sequence's end there are none", () => {
  assert.deepEqual(stateAt(side, 5).scores, [[1, 3, 2, -1]]);
  const later = stateAt(side, 9).scores[0];
  assert.deepEqual(later.slice(4), [5, 4]);
  assert.equal(0 in later, false); // another program knows nothing of the first
});

test("each split keeps what it ended with until the merge weighs it", () => {
  const end = stateAt(side, side.stops.length - 1);
  assert.deepEqual([...end.splits.values()], [{ from: 0, to: 4, top: [3], share: [1.5] }, { from: 4, to: 6, top: [5], share: [1.2] }]);
  assert.deepEqual(end.merged.get(0), { part_lse: [3.4, 5.2], weight: [0.2, 1], result: [0.5] });
  assert.equal(end.merging, true);
});

test("before the first stop nothing is known", () => {
  const { stop: none, tile, scores } = stateAt(side, -1);
  assert.deepEqual([none, tile, scores], [null, -1, []]);
});

test("text stands for what JSON has no number for", () => {
  assert.deepEqual(["-inf", "inf", "nan", 2].map(number), [-Infinity, Infinity, NaN, 2]);
});

test("a lane touches the sectors that its bytes lie in", () => {
  assert.deepEqual(sectorsOf(0, 4), [0]);
  assert.deepEqual(sectorsOf(30, 4), [0, 1]);
  assert.deepEqual(sectorsOf(null, 4), []);
  const rows = touched(Array.from({ length: 32 }, (_, lane) => 256 * lane), 4);
  assert.deepEqual([rows.sectors.size, rows.lines.length], [32, 32]);
  const dense = touched(Array.from({ length: 32 }, (_, lane) => 4 * lane), 4);
  assert.deepEqual([dense.sectors.size, dense.lines.length], [4, 1]);
  assert.deepEqual(dense.sectors.get(1), [8, 9, 10, 11, 12, 13, 14, 15]);
});
