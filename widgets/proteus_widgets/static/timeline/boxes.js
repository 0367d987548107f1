/** @import { Frame } from "./spans.js" */
/** @import { LaneRow } from "./rows.js" */
/** @import { Viewport } from "./viewport.js" */
// Which boxes a lane draws. Spans narrower than a pixel share one: it shows the kind that fills most of it.
// Cost: one look at each visible span, one box for each visible pixel at most.

const LABEL_HEIGHT = 14; // rows lower than this carry no text
const LABEL_WIDTH = 14;

export class Boxes {
  /** @param {number} numKinds */
  constructor(numKinds) {
    /** @type {number[][]} by kind: x, y, width, height of each box */
    this.bright = Array.from({ length: numKinds }, () => []);
    /** @type {number[][]} */
    this.dim = Array.from({ length: numKinds }, () => []);
    /** @type {number[]} */
    this.critical = [];
    /** @type {number[]} first span, number of spans, x, y, width of each label */
    this.labels = [];
    this.drawn = 0;
    this.share = new Float64Array(numKinds);
  }

  clear() {
    for (const list of [...this.bright, ...this.dim]) list.length = 0;
    this.critical.length = this.labels.length = this.drawn = 0;
  }

  /**
   * @param {number} kind
   * @param {boolean} lit
   * @param {number} x
   * @param {number} y
   * @param {number} width
   * @param {number} height
   */
  put(kind, lit, x, y, width, height) {
    (lit ? this.bright : this.dim)[kind].push(x, y, width, height);
    this.drawn++;
  }

  /**
   * @param {Frame} frame
   * @param {LaneRow} row
   * @param {Viewport} viewport
   * @param {Uint8Array | null} emphasis
   * @param {boolean} showCritical
   */
  addLane(frame, row, viewport, emphasis, showCritical) {
    const { start, duration, kind, critical } = frame;
    const { left, scale, from, to } = viewport;
    const y = viewport.axis + row.y - viewport.top;
    const height = row.height;
    const high = frame.pointer[row.lane + 1];
    const share = this.share;
    let pixel = -1;
    let pixelLit = false;
    const flush = () => {
      if (pixel < 0) return;
      let most = 0;
      for (let k = 1; k < share.length; k++) if (share[k] > share[most]) most = k;
      share.fill(0);
      this.put(most, pixelLit, pixel, y, 1, height);
      pixel = -1;
      pixelLit = false;
    };
    for (let i = frame.firstVisible(row.lane, from); i < high && start[i] < to; i++) {
      const x = left + (start[i] - from) * scale;
      const width = duration[i] * scale;
      const lit = emphasis === null || emphasis[i] === 1;
      if (width < 1) {
        const at = Math.max(left, x | 0);
        if (at !== pixel) {
          flush();
          pixel = at;
        }
        share[kind[i]] += duration[i];
        pixelLit ||= lit;
        continue;
      }
      flush();
      const a = Math.max(x, left);
      const w = Math.max(Math.min(x + width, viewport.width) - a - (width > 4 ? 0.7 : 0), 0.8);
      this.put(kind[i], lit, a, y, w, height);
      if (showCritical && critical?.[i]) this.critical.push(a, y, w, height);
    }
    flush();
    if (height >= LABEL_HEIGHT) this.addLabels(frame, row, viewport, y + height / 2);
  }

  /**
   * One label for each run of neighbours of the same micro-batch, forward or backward.
   * @param {Frame} frame
   * @param {LaneRow} row
   * @param {Viewport} viewport
   * @param {number} y
   */
  addLabels(frame, row, viewport, y) {
    const { start, duration, kind } = frame;
    const { left, scale, from, to } = viewport;
    const high = frame.pointer[row.lane + 1];
    const near = 3 / scale; // neighbours: less than three pixels apart
    for (let i = frame.firstVisible(row.lane, from); i < high && start[i] < to; ) {
      const first = i;
      let end = start[i] + duration[i];
      for (i++; i < high && (kind[i] === 0) === (kind[first] === 0) && frame.microOf(i) === frame.microOf(first) && start[i] - end < near && start[i] < to; i++) end = start[i] + duration[i];
      const x = Math.max(left, left + (start[first] - from) * scale);
      const width = Math.min(left + (end - from) * scale, viewport.width) - x;
      if (width >= LABEL_WIDTH) this.labels.push(first, i - first, x, y, width);
    }
  }
}
