// Wherever a reader jumps, they see what they would have seen by playing up to there.

import assert from "node:assert/strict";
import { test } from "node:test";

import { END, WRITE } from "../../widgets/pagedlab_widgets/static/events.js";
import { countsAt, decode, fillHeight, fillOf, refsOf, seek, startOf } from "../../widgets/pagedlab_widgets/static/replay.js";
import { describeBlock, nameOf, percent } from "../../widgets/pagedlab_widgets/static/words.js";

/** A random number generator that a test can repeat (mulberry32). */
function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Numbers as trace.py writes them. */
function leb(...numbers) {
  return numbers.flatMap((number) => {
    const bytes = [];
    for (; number > 127; number = Math.floor(number / 128)) bytes.push((number % 128) + 128);
    return [...bytes, number];
  });
}

/** A run on the wire, from frames of writes [block, owner, fill, refs]. */
function wire(frames, { blocks = 8, blockSize = 16, names = [], label = "run" } = {}) {
  const bytes = frames.flatMap((frame) => [...frame.flatMap(([block, ...held]) => leb(WRITE, block, 1, ...held)), END]);
  // At an odd place in its buffer, as the parts of a kernel message may be.
  const events = new DataView(new ArrayBuffer(bytes.length + 3), 3);
  bytes.forEach((byte, i) => events.setUint8(i, byte));
  return { label, num_blocks: blocks, block_size: blockSize, names, frames: frames.length, events };
}

function randomRun(seed) {
  const next = random(seed), below = (n) => Math.floor(next() * n);
  const blocks = 1 + below(200), blockSize = 1 + below(300), frames = [];
  for (let f = 0, count = 1 + below(400); f < count; f++) {
    frames.push(Array.from({ length: below(6) }, () => [below(blocks), below(70), below(blockSize + 1), below(4)]));
  }
  return { frames, blocks, blockSize };
}

/** The state after frame f, the slow and plain way. */
function replay({ frames, blocks }, f) {
  const state = Array.from({ length: blocks }, () => [0, 0, 0]);
  for (const frame of frames.slice(0, f + 1)) for (const [block, ...held] of frame) state[block] = held;
  return state;
}

const unpack = (state) => Array.from(state.slots, (slot, b) => [state.owners[b], fillOf(slot), refsOf(slot)]);

for (const seed of [1, 2, 3, 4, 5, 6, 7, 8]) {
  test(`any frame reached by scrubbing equals the frame reached by playing (run ${seed})`, () => {
    const run = randomRun(seed), tape = decode(wire(run.frames, run)), next = random(seed + 100);
    const scrubbed = startOf(tape);
    for (let jump = 0; jump < 60; jump++) {
      const f = Math.floor(next() * run.frames.length), before = unpack(scrubbed);
      const [first, end] = seek(tape, scrubbed, f);
      const expected = replay(run, f);
      assert.deepEqual(unpack(scrubbed), expected);
      const passed = new Set(tape.blocks.slice(first, end));
      before.forEach((held, block) => {
        if (`${held}` !== `${expected[block]}`) assert.ok(passed.has(block), `block ${block} changed unnoticed`);
      });
    }
    const played = startOf(tape);
    for (let f = 0; f < tape.frames; f++) seek(tape, played, f);
    assert.deepEqual(unpack(played), replay(run, tape.frames - 1));
    for (let f = tape.frames - 1; f >= -1; f--) seek(tape, played, f);
    assert.deepEqual(unpack(played), unpack(startOf(tape)));
  });

  test(`the figures of a frame are those of its blocks (run ${seed})`, () => {
    const run = randomRun(seed), tape = decode(wire(run.frames, run));
    for (let f = 0; f < tape.frames; f += 7) {
      const held = replay(run, f).filter(([, , refs]) => refs);
      const stored = held.reduce((sum, [, fill]) => sum + fill, 0), slots = held.length * run.blockSize;
      assert.deepEqual(countsAt(tape, f), {
        used: held.length,
        stored,
        held: slots,
        shared: held.filter(([, , refs]) => refs > 1).length,
        kept: 0,
        waste: slots ? (slots - stored) / slots : 0,
      });
    }
  });
}

test("a frame out of range is the nearest there is", () => {
  const tape = decode(wire([[[0, 0, 1, 1]], [[1, 0, 1, 1]]])), state = startOf(tape);
  seek(tape, state, 99);
  assert.equal(state.at, 1);
  seek(tape, state, -7);
  assert.equal(state.at, -1);
  assert.equal(countsAt(tape, 99).used, 2);
});

test("a run without frames is a pool of free blocks", () => {
  const tape = decode(wire([])), state = startOf(tape);
  assert.deepEqual(seek(tape, state, 5), [0, 0]);
  assert.deepEqual(countsAt(tape, 0), { used: 0, stored: 0, held: 0, shared: 0, kept: 0, waste: 0 });
});

test("the largest numbers of the format come through", () => {
  const tape = decode(wire([[[16383, 65535, 65535, 32767]]], { blocks: 16384, blockSize: 65535 })), state = startOf(tape);
  seek(tape, state, 0);
  assert.deepEqual(unpack(state)[16383], [65535, 65535, 32767]);
});

test("only a full block looks full, and whatever stores a token shows one", () => {
  for (const blockSize of [1, 5, 16, 256, 65535]) {
    for (const height of [2, 3, 7, 22]) {
      assert.equal(fillHeight(blockSize, blockSize, height), height);
      assert.equal(fillHeight(0, blockSize, height), 0);
      for (const fill of [1, blockSize >> 1, blockSize - 1]) {
        const shown = fillHeight(fill, blockSize, height);
        if (fill > 0 && fill < blockSize) assert.ok(shown >= 1 && shown < height, `${fill} of ${blockSize}: ${shown} of ${height}`);
      }
    }
  }
});

test("a block in words: free, reserved, part filled, shared, by a name that is only text", () => {
  const hostile = "<img src=x onerror=alert(1)>";
  const tape = decode(wire([[[1, 0, 0, 1], [2, 0, 9, 1], [3, 1, 16, 3], [4, 2, 1, 1]]], { names: ["request 7", hostile] }));
  const state = startOf(tape);
  seek(tape, state, 0);
  const say = (block) => describeBlock(tape, state, block);
  assert.deepEqual(say(0), { title: "Block 0", holder: "free", detail: "" });
  assert.deepEqual(say(1), { title: "Block 1", holder: "request 7", detail: "held, none of its 16 slots stores a token" });
  assert.deepEqual(say(2), { title: "Block 2", holder: "request 7", detail: "9 of 16 slots store a token" });
  assert.deepEqual(say(3), { title: "Block 3", holder: `${hostile} and 2 others`, detail: "16 of 16 slots store a token, shared by 3" });
  assert.equal(say(4).holder, "sequence 2");
});

test("a share that is not nothing never reads as nothing", () => {
  assert.deepEqual([0, 0.0001, 0.049, 0.5, 0.9999, 1].map(percent), ["0.0 %", "< 0.1 %", "4.9 %", "50.0 %", "> 99.9 %", "100.0 %"]);
});

test("a name of any length or direction stays inside its line", () => {
  const tape = { names: ["A", "x".repeat(10_000), "\u202egnp.exe", "\u0645\u0631\u062d\u0628\u0627"] };
  assert.equal(nameOf(tape, 0), "A");
  assert.equal(nameOf(tape, 1).length, 49);
  for (const seq of [2, 3]) assert.equal(nameOf(tape, seq), `\u2068${tape.names[seq]}\u2069`);
});
