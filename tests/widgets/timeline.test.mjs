// The timeline and what leaves the page, on a clock that the test holds.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Saver } from "../../widgets/pagedlab_widgets/static/dom.js";
import { Timeline, comfortableSpeed, joinTimeline } from "../../widgets/pagedlab_widgets/static/timeline.js";

/** @type {Map<number, (now: number) => void>} */
let waiting = new Map();
let calm = false;

beforeEach(() => {
  waiting = new Map();
  calm = false;
  let id = 0;
  globalThis.requestAnimationFrame = (then) => { waiting.set(++id, then); return id; };
  globalThis.cancelAnimationFrame = (which) => waiting.delete(which);
  globalThis.matchMedia = () => ({ matches: calm });
});

/** Let the browser paint at `now`. */
function paint(now) {
  const due = [...waiting.values()];
  waiting.clear();
  for (const then of due) then(now);
}

function timelineOf(frames, speed = 10) {
  const timeline = new Timeline(), seen = [];
  timeline.resize(frames);
  timeline.pace(speed);
  timeline.listen((cause) => seen.push([cause, timeline.frame]));
  return { timeline, seen };
}

test("playing follows the clock, whatever the browser manages to paint", () => {
  const { timeline } = timelineOf(1000, 100);
  timeline.play();
  paint(50);
  paint(1050);
  assert.equal(timeline.frame, 100);
  paint(1051);
  assert.equal(timeline.frame, 100);
});

test("it pauses by itself at the end, and plays again from the start", () => {
  const { timeline, seen } = timelineOf(5, 10);
  timeline.play();
  paint(1);
  paint(10_001);
  assert.deepEqual([timeline.frame, timeline.playing, waiting.size], [4, false, 0]);
  assert.deepEqual(seen.at(-1), ["pause", 4]);
  timeline.play();
  assert.deepEqual([timeline.frame, timeline.playing], [0, true]);
});

test("a person's step stops it; Python's does not", () => {
  const { timeline } = timelineOf(1000, 100);
  timeline.play();
  paint(1);
  timeline.seek(500, "model");
  assert.ok(timeline.playing);
  paint(10_001);
  paint(10_101);
  assert.equal(timeline.frame, 510);
  timeline.seek(timeline.frame - 1, "input");
  assert.deepEqual([timeline.frame, timeline.playing, waiting.size], [509, false, 0]);
});

test("who asked for less motion gets two pictures a second at the same pace", () => {
  calm = true;
  const { timeline, seen } = timelineOf(1000, 100);
  timeline.play();
  for (let now = 1; now <= 2001; now += 20) paint(now);
  assert.ok(timeline.frame >= 150);
  assert.ok(seen.length <= 6, `${seen.length} pictures in two seconds`);
});

test("another run keeps the frame where it is long enough", () => {
  const { timeline } = timelineOf(100);
  timeline.seek(60, "input");
  timeline.resize(80);
  assert.equal(timeline.frame, 60);
  timeline.resize(30);
  assert.equal(timeline.frame, 29);
  timeline.resize(0);
  assert.deepEqual([timeline.frame, timeline.last], [0, 0]);
});

test("a run too short to play does not play", () => {
  const { timeline } = timelineOf(1);
  timeline.play();
  assert.deepEqual([timeline.playing, waiting.size], [false, 0]);
});

test("the comfortable speed shows any run in about twenty seconds", () => {
  for (const frames of [40, 200, 1000, 5000, 100_000]) {
    const seconds = frames / comfortableSpeed(frames);
    assert.ok(seconds >= 8 && seconds <= 20, `${frames} frames in ${seconds} s`);
  }
});

test("many changes are few messages, and the last value wins", async () => {
  const messages = [], model = { value: null, set(name, value) { this.value = value; }, save_changes() { messages.push(this.value); } };
  const saver = new Saver(model, "frame", 40);
  for (let frame = 1; frame <= 20; frame++) {
    saver.save(frame);
    await new Promise((then) => setTimeout(then, 5));
  }
  await new Promise((then) => setTimeout(then, 80));
  assert.equal(messages.at(-1), 20);
  assert.ok(messages.length <= 7, `${messages.length} messages`);
  saver.save(99);
  saver.cancel();
  await new Promise((then) => setTimeout(then, 80));
  assert.equal(messages.at(-1), 20);
});

test("in a loop it rests at the end and begins anew, step for step", () => {
  const { timeline, seen } = timelineOf(4, 10);
  timeline.loop = true;
  timeline.play();
  for (let now = 1; now <= 2601; now += 50) paint(now);
  assert.ok(timeline.playing);
  assert.deepEqual(seen.filter(([cause]) => cause === "play").map(([, frame]) => frame).slice(0, 9), [0, 1, 2, 3, 0, 1, 2, 3, 0]);
});

test("widgets that name the same timeline move together, the longest run counts, and the last one out stops it", () => {
  const seen = [];
  const [first, second] = ["a", "b"].map((who) => {
    const listener = () => seen.push(who), joined = joinTimeline("shared", listener);
    joined.timeline.resize(who === "a" ? 10 : 20, listener);
    return joined;
  });
  assert.equal(first.timeline, second.timeline);
  assert.equal(first.timeline.frames, 20);
  first.timeline.seek(15, "input");
  assert.deepEqual(seen, ["a", "b"]);
  second.leave();
  assert.equal(first.timeline.frames, 10);
  first.timeline.play();
  first.leave();
  assert.equal(first.timeline.playing, false);
  assert.notEqual(joinTimeline("shared", () => {}).timeline, first.timeline);
});
