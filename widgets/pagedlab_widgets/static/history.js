// The whole run in one strip: slots held and tokens stored, frame by frame, and where in it the reader is.

import { h } from "./dom.js";

const HEIGHT = 36; // CSS pixels

export class History {
  /** @param {(frame: number, since: number) => void} go */
  constructor(go) {
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.hand = h("i", { class: "pl-hand" });
    this.element = h("div", { class: "pl-history", title: "The whole run: slots held (pale), tokens stored (full)" }, this.canvas, this.hand);
    this.frames = 0;
    /** @param {PointerEvent} event */
    const drag = (event) => {
      const box = this.element.getBoundingClientRect();
      if (event.buttons & 1) go(Math.round(((event.clientX - box.left) / box.width) * (this.frames - 1)), event.timeStamp);
    };
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      drag(event);
    });
    this.element.addEventListener("pointermove", drag);
  }

  /**
   * @param {import("./replay.js").Tape} tape
   * @param {import("./colours.js").Theme} theme
   * @param {number} frames  of the timeline: a shorter run ends earlier
   */
  draw(tape, theme, frames) {
    const { canvas } = this, ratio = globalThis.devicePixelRatio || 1;
    const width = (canvas.width = Math.round(this.element.clientWidth * ratio)), height = (canvas.height = Math.round(HEIGHT * ratio));
    const context = canvas.getContext("2d"), room = tape.numBlocks * tape.blockSize;
    this.frames = frames;
    if (!context || !width) return;
    /** @type {[Uint32Array, number, string][]} */
    const curves = [[tape.used, tape.blockSize, theme.trace.tint], [tape.stored, 1, theme.trace.solid]];
    for (const [values, unit, colour] of curves) {
      context.fillStyle = colour;
      for (let x = 0; x < width; x++) {
        const from = Math.floor((x / width) * frames), to = Math.max(from + 1, Math.floor(((x + 1) / width) * frames));
        let most = 0;
        for (let f = from; f < Math.min(to, tape.frames); f++) most = Math.max(most, values[f]);
        const tall = Math.ceil((height * most * unit) / room);
        context.fillRect(x, height - tall, 1, tall);
      }
    }
  }

  /** @param {number} frame */
  point(frame) {
    this.hand.style.left = `${this.frames > 1 ? (100 * frame) / (this.frames - 1) : 0}%`;
  }
}
