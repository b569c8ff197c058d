// One timeline that any number of pictures follow, and the bar that moves it.

import { h, icon, prefersReducedMotion, setAttributes, setText } from "./dom.js";
import { grouped } from "./words.js";

const SPEEDS = [1, 2, 5, 10, 20, 60, 120, 300, 1000, 3000, 10000];
const REST = 800; // ms at the end of a run that is played in a loop
const CALM = 500; // ms between two pictures for readers who asked for less motion; the pace of the run stays

/** The speed (frames a second) that shows `frames` in about twenty seconds. @param {number} frames */
export const comfortableSpeed = (frames) => SPEEDS.find((speed) => speed >= frames / 20) ?? SPEEDS[SPEEDS.length - 1];

/** @typedef {"input" | "play" | "pause" | "model"} Cause  what moved the timeline: a person, time passing, the end of it, Python */

/** A frame among `frames`, moved by hand, by time or by Python; whoever listens hears of each change. */
export class Timeline {
  frames = 0;
  frame = 0;
  speed = 10;
  /** Whether it begins anew at the end. */
  loop = false;
  /** Whether the reader chose the speed: then another run does not change it. */
  chosen = false;
  playing = false;
  /** When the input that led here happened, by the page's clock; 0 for other causes. */
  since = 0;
  #request = 0;
  #origin = { frame: 0, time: 0 };
  #shown = 0;
  /** @type {Map<object, number>} */
  #runs = new Map();
  /** @type {Set<(cause: Cause) => void>} */
  #listeners = new Set();

  /** @param {(cause: Cause) => void} listener @returns {() => boolean}  stop listening; whether somebody still does */
  listen(listener) {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
      this.#runs.delete(listener);
      if (this.#runs.size) this.#measure();
      if (!this.#listeners.size) this.#halt();
      return this.#listeners.size > 0;
    };
  }

  /** @param {Cause} cause */
  #tell(cause) {
    for (const listener of this.#listeners) listener(cause);
  }

  get last() {
    return Math.max(0, this.frames - 1);
  }

  /**
   * Another run: stay where we are if it is long enough. Where several share the timeline, the longest counts.
   * @param {number} frames
   * @param {object} [whose]  the listener that shows it
   */
  resize(frames, whose = this) {
    const before = this.frame;
    this.#runs.set(whose, frames);
    this.#measure();
    this.#rebase();
    if (this.frame !== before) this.#tell("model"); // the others show a frame that is no more
    if (!this.frames) this.pause();
  }

  #measure() {
    this.frames = Math.max(...this.#runs.values());
    this.frame = Math.min(this.frame, this.last);
  }

  /** @param {number} frame @param {Cause} cause @param {number} [since] */
  seek(frame, cause, since = 0) {
    const target = Math.max(0, Math.min(this.last, frame));
    if (cause === "input") this.#halt();
    if (target === this.frame && cause !== "input") return;
    this.frame = target;
    this.since = since;
    if (cause === "model") this.#rebase();
    this.#tell(cause);
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    if (this.playing || this.frames < 2) return;
    if (this.frame >= this.last) this.seek(0, "play");
    this.playing = true;
    this.#shown = -Infinity;
    this.#rebase();
    this.#request = requestAnimationFrame(this.#tick);
    this.#tell("play");
  }

  pause() {
    if (!this.playing) return;
    this.#halt();
    this.#tell("pause");
  }

  /** @param {number} speed */
  pace(speed) {
    this.speed = speed;
    this.#rebase();
  }

  #halt() {
    this.playing = false;
    cancelAnimationFrame(this.#request);
  }

  #rebase() {
    this.#origin = { frame: this.frame, time: 0 };
  }

  #tick = (/** @type {number} */ now) => {
    if (!this.playing) return;
    if (!this.#origin.time) this.#origin.time = now;
    const due = this.#origin.frame + Math.floor(((now - this.#origin.time) / 1000) * this.speed);
    if (due >= this.last) {
      this.seek(this.last, "play");
      if (!this.loop) return this.pause();
      if (due - this.last > (REST / 1000) * this.speed) {
        this.seek(0, "play");
        this.#rebase();
      }
    } else if (due !== this.frame && now - this.#shown >= (prefersReducedMotion() ? CALM : 0)) {
      this.#shown = now;
      this.seek(due, "play");
    }
    this.#request = requestAnimationFrame(this.#tick);
  };
}

/** Where widgets of one page, each a module of its own, find the timeline that they share. */
const SHARED = Symbol.for("pagedlab.timelines");

/**
 * The timeline of that name in this page; it lives as long as somebody listens.
 * @param {string} name @param {(cause: Cause) => void} listener
 * @returns {{timeline: Timeline, leave: () => boolean}}  whether others stay
 */
export function joinTimeline(name, listener) {
  /** @type {Map<string, Timeline>} */
  const page = (/** @type {any} */ (globalThis)[SHARED] ??= new Map());
  const timeline = page.get(name) ?? new Timeline(), stop = timeline.listen(listener);
  page.set(name, timeline);
  return { timeline, leave: () => stop() || !page.delete(name) };
}

const ICONS = {
  play: "M4 2.5v11l9-5.5z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  back: "M3 3h2v10H3zM13 3v10L6 8z",
  next: "M11 3h2v10h-2zM3 3l7 5-7 5z",
  loop: "M4.5 4h7A2.5 2.5 0 0 1 14 6.5v3a2.5 2.5 0 0 1-2.5 2.5H7v2L3.5 11 7 8v2h4.5a.5.5 0 0 0 .5-.5v-3a.5.5 0 0 0-.5-.5h-7a.5.5 0 0 0-.5.5V8H2V6.5A2.5 2.5 0 0 1 4.5 4z",
};

/**
 * Play, step, scrub and speed: native controls, so that the browser brings keys, focus and names.
 * @param {Timeline} timeline @returns {{element: HTMLElement, refresh: () => void}}  `refresh` after the timeline changed
 */
export function controlBar(timeline) {
  const play = h("button", { type: "button", class: "pl-play" });
  const back = h("button", { type: "button", class: "pl-back", "aria-label": "Step back", title: "Step back" }, icon(ICONS.back));
  const next = h("button", { type: "button", class: "pl-next", "aria-label": "Step forward", title: "Step forward" }, icon(ICONS.next));
  const scrub = h("input", { type: "range", class: "pl-scrub", min: 0, step: 1, "aria-label": "Step" });
  const where = h("output", { class: "pl-where", "aria-hidden": "true" });
  const speed = h("select", { class: "pl-speed", "aria-label": "Speed", title: "Speed" });
  const loop = h("button", { type: "button", class: "pl-loop", "aria-label": "Loop", title: "Begin anew at the end" }, icon(ICONS.loop));
  const element = h("div", { class: "pl-bar", role: "group", "aria-label": "Timeline" }, play, back, next, scrub, where, loop, speed);

  play.addEventListener("click", () => timeline.toggle());
  back.addEventListener("click", (event) => timeline.seek(timeline.frame - 1, "input", event.timeStamp));
  next.addEventListener("click", (event) => timeline.seek(timeline.frame + 1, "input", event.timeStamp));
  scrub.addEventListener("input", (event) => timeline.seek(Number(scrub.value), "input", event.timeStamp));
  loop.addEventListener("click", () => {
    timeline.loop = !timeline.loop;
    refresh();
  });
  speed.addEventListener("change", () => {
    timeline.chosen = true;
    timeline.pace(Number(speed.value));
  });

  let shown = "";
  const refresh = () => {
    const { frame, last, frames, playing } = timeline;
    if (shown !== `${playing}`) {
      shown = `${playing}`;
      play.replaceChildren(icon(playing ? ICONS.pause : ICONS.play));
      setAttributes(play, { "aria-label": playing ? "Pause" : "Play", title: playing ? "Pause" : "Play" });
    }
    setAttributes(loop, { "aria-pressed": String(timeline.loop) });
    for (const control of [play, scrub, speed, loop]) control.disabled = frames < 2;
    // A disabled button loses the focus, and with it the keyboard: at the ends the steps are only marked.
    setAttributes(back, { "aria-disabled": String(frame <= 0) });
    setAttributes(next, { "aria-disabled": String(frame >= last) });
    scrub.max = String(last);
    scrub.value = String(frame);
    scrub.style.setProperty("--pl-part", `${last ? (100 * frame) / last : 0}%`);
    scrub.setAttribute("aria-valuetext", `step ${frame} of ${last}`);
    setText(where, `step ${grouped(frame)} / ${grouped(last)}`);
    where.style.minWidth = `${2 * grouped(last).length + 8}ch`;
    const options = [...new Set([...SPEEDS, timeline.speed])].sort((a, b) => a - b);
    if (speed.options.length !== options.length || Number(speed.value) !== timeline.speed) {
      speed.replaceChildren(...options.map((value) => h("option", { value, selected: value === timeline.speed }, `${grouped(value)} steps/s`)));
    }
  };
  return { element, refresh };
}
