import { column, columnOrNull, lowerBound } from "../common/columns.js";
/** @import { FrameData } from "../types" */

/**
 * Which spans stand out, by what they are of; what is null singles out nothing.
 * @typedef {object} Emphasis
 * @property {Uint8Array | null} [nodes]
 * @property {Uint8Array | null} [patterns]
 * @property {boolean[] | null} [names]
 * @property {boolean[] | null} [kinds]
 */

/** The columns of a frame as typed arrays, and the questions asked of them. */
export class Frame {
  /** @param {FrameData} data */
  constructor(data) {
    this.rev = data.rev;
    this.show = data.show; // which result it is of
    this.total = data.total;
    this.lod = data.lod;
    this.makespan = data.makespan_s;
    this.lanes = data.lanes;
    this.names = data.names;
    this.start = column(data.start, Float64Array);
    this.duration = column(data.duration, Float32Array);
    this.kind = column(data.kind, Uint8Array);
    this.node = column(data.node, Int32Array);
    this.name = column(data.name, Int32Array);
    this.micro = column(data.micro, Int32Array);
    this.pattern = column(data.pattern, Int32Array);
    this.critical = columnOrNull(data.critical, Uint8Array);
    this.id = columnOrNull(data.id, Int32Array); // only when the kernel sent a level of detail
    this.pointer = column(data.lane_ptr, Uint32Array);
  }

  get length() { return this.start.length; }
  /** @param {number} i */
  end(i) { return this.start[i] + this.duration[i]; }
  /** @param {number} i */
  idOf(i) { return this.id ? this.id[i] : i; }
  /** @param {number} i */
  microOf(i) { return this.micro[i]; }

  /**
   * Ids rise from row to row, so the row of an id is found by bisection; -1 when it was not sent.
   * @param {number} id
   */
  rowOf(id) {
    if (id < 0) return -1;
    if (!this.id) return id < this.length ? id : -1;
    const row = lowerBound(this.id, 0, this.id.length, id);
    return this.id[row] === id ? row : -1;
  }

  /** @param {number} i */
  laneOf(i) {
    let low = 0;
    let high = this.pointer.length - 1;
    while (low < high - 1) {
      const middle = (low + high) >> 1;
      if (this.pointer[middle] <= i) low = middle;
      else high = middle;
    }
    return low;
  }

  /**
   * The first span of a lane that is still running at `time`.
   * @param {number} lane
   * @param {number} time
   */
  firstVisible(lane, time) {
    const low = this.pointer[lane];
    const i = lowerBound(this.start, low, this.pointer[lane + 1], time);
    return i > low && this.end(i - 1) > time ? i - 1 : i;
  }

  /**
   * The span at `time`, or the nearest one within `slack` seconds.
   * @param {number} lane
   * @param {number} time
   * @param {number} slack
   */
  at(lane, time, slack) {
    const low = this.pointer[lane];
    const high = this.pointer[lane + 1];
    const i = lowerBound(this.start, low, high, time);
    const before = i > low ? time - this.end(i - 1) : Infinity;
    if (before <= 0) return i - 1;
    const after = i < high ? this.start[i] - time : Infinity;
    if (Math.min(before, after) > slack) return -1;
    return before <= after ? i - 1 : i;
  }

  /**
   * Which spans stand out: null when all do.
   * @param {Emphasis} emphasis
   */
  emphasis({ nodes, patterns, names, kinds }) {
    if (!nodes && !patterns && !names && !kinds) return null;
    const out = new Uint8Array(this.length);
    for (let i = 0; i < out.length; i++) {
      out[i] = names?.[this.name[i]] || kinds?.[this.kind[i]] || nodes?.[this.node[i]] || (this.pattern[i] >= 0 && patterns?.[this.pattern[i]]) ? 1 : 0;
    }
    return out;
  }
}
