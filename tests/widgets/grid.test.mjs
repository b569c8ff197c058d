// Where blocks go, and that painting touches only those that changed.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Painter, fit } from "../../widgets/pagedlab_widgets/static/grid.js";

const room = { width: 560, height: 420, ratio: 1, columns: 0, gutter: 30 };

test("every block has a place and no row is wider than the room", () => {
  for (const blocks of [1, 4, 16, 100, 256, 1000, 4096, 16384]) {
    for (const width of [120, 300, 560, 1200]) {
      for (const ratio of [1, 1.25, 2]) {
        const grid = fit({ ...room, blocks, width, ratio });
        const where = `${blocks} blocks in ${width} at ${ratio}: ${JSON.stringify(grid)}`;
        assert.ok(grid.columns * grid.rows >= blocks && grid.columns * (grid.rows - 1) < blocks, where);
        assert.ok(grid.gutter + grid.columns * grid.cell <= width * ratio + 1, where);
        assert.ok(grid.cell > grid.gap, where);
      }
    }
  }
});

test("few blocks are large, many are small but all there", () => {
  assert.equal(fit({ ...room, blocks: 16 }).cell, 40);
  assert.ok(fit({ ...room, blocks: 256 }).cell >= 20);
  const many = fit({ ...room, blocks: 16384 });
  assert.ok(many.cell >= 3 && many.columns % 8 === 0);
});

test("the author's columns are kept", () => {
  assert.equal(fit({ ...room, blocks: 256, columns: 10 }).columns, 10);
});

/** A canvas that notes where it was painted. */
function fakeCanvas() {
  const painted = [];
  const context = {
    fillRect: (x, y) => painted.push([x, y]),
    clearRect() {}, beginPath() {}, moveTo() {}, lineTo() {}, fill() {}, fillText() {},
  };
  return { painted, canvas: { width: 0, height: 0, style: {}, getContext: () => context, getBoundingClientRect: () => ({ left: 0, top: 0, width: 0 }) } };
}

function painterOf(tape, state) {
  globalThis.getComputedStyle = () => ({ fontFamily: "sans-serif" });
  const { painted, canvas } = fakeCanvas(), painter = new Painter(canvas);
  const look = { solid: "s", tint: "t", pale: "p", edge: "e", dot: "d", mark: 0 };
  const grid = { cell: 10, gap: 1, columns: 4, rows: 2, gutter: 0, ratio: 1 };
  painter.reset({ tape, grid, theme: { looks: [look], free: "f", ink: "i", paper: "w", muted: "m" } }, state);
  return { painter, painted };
}

test("only the blocks that changed are painted again", () => {
  const tape = { numBlocks: 8, blockSize: 16, colours: [0], blocks: Uint16Array.of(3, 5, 3, 6) };
  const state = { at: 0, owners: new Uint16Array(8), slots: new Uint32Array(8) };
  const { painter, painted } = painterOf(tape, state);
  painted.length = 0;
  state.slots[3] = 16 | (1 << 16);
  state.slots[6] = 4 | (2 << 16);
  // Block 5 was written and put back on the way; block 3 was written twice.
  assert.equal(painter.update(state, 0, 4), 2);
  const cells = new Set(painted.map(([x, y]) => Math.floor(x / 10) + 4 * Math.floor(y / 10)));
  assert.deepEqual([...cells].sort(), [3, 6]);
  assert.equal(painter.update(state, 0, 4), 0);
});

test("a jump over more writes than there are blocks looks at each block once", () => {
  const tape = { numBlocks: 8, blockSize: 16, colours: [0], blocks: new Uint16Array(1000) };
  const state = { at: 0, owners: new Uint16Array(8), slots: new Uint32Array(8) };
  const { painter } = painterOf(tape, state);
  state.slots.fill(1 | (1 << 16));
  assert.equal(painter.update(state, 0, 1000), 8);
});

test("a point of the page leads to the block drawn there, and back", () => {
  const tape = { numBlocks: 7, blockSize: 16, colours: [0], blocks: new Uint16Array(0) };
  const { painter } = painterOf(tape, { at: 0, owners: new Uint16Array(7), slots: new Uint32Array(7) });
  for (let block = 0; block < 7; block++) {
    const { left, top, size } = painter.placeOf(block);
    assert.equal(painter.blockAt(left + size / 2, top + size / 2), block);
  }
  assert.equal(painter.blockAt(35, 15), -1); // past the last block
  assert.equal(painter.blockAt(45, 5), -1);
});
