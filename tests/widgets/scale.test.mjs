// From numbers to places on an axis.

import assert from "node:assert/strict";
import { test } from "node:test";

import { format, nearest, scaleOf } from "../../widgets/pagedlab_widgets/static/scale.js";

const even = { log: false, ticks: [] }, powers = { log: true, ticks: [] };

test("an even axis starts at 0 and its marks enclose the values", () => {
  const scale = scaleOf([3, 17], even);
  assert.deepEqual(scale.ticks, [0, 5, 10, 15, 20]);
  assert.deepEqual([0, 10, 20].map(scale.share), [0, 0.5, 1]);
});

test("an axis in powers has every power at an equal distance", () => {
  const scale = scaleOf([1, 256], powers);
  assert.deepEqual(scale.ticks, [1, 10, 100]);
  assert.ok(Math.abs(scale.share(16) - 0.5) < 1e-12);
  assert.deepEqual(scaleOf([4, 32], powers).ticks, [4, 8, 16, 32]);
});

test("marks that are given stay, and are part of the axis", () => {
  assert.deepEqual(scaleOf([2, 3], { log: false, ticks: [0, 4] }).ticks, [0, 4]);
  assert.equal(scaleOf([2, 3], { log: false, ticks: [0, 4] }).share(4), 1);
});

test("no value, one value, and a constant have an axis too", () => {
  for (const values of [[], [5], [0, 0], [7, 7]]) {
    const scale = scaleOf(values, even);
    assert.ok(scale.ticks.length > 1 && values.every((value) => scale.share(value) >= 0 && scale.share(value) <= 1));
  }
  assert.deepEqual(scaleOf([8], powers).ticks, [8, 16]);
});

test("numbers read as people write them", () => {
  assert.deepEqual([0, 0.01234, 4.876, 999.6, 19366.4, 3.35e12].map(format), ["0", "0.0123", "4.88", "1,000", "19,366", "3,350,000,000,000"]);
});

test("the nearest place is found at both ends and between", () => {
  assert.deepEqual([-5, 1.4, 1.6, 90].map((value) => nearest([0, 1, 2, 3], value)), [0, 1, 2, 3]);
});
