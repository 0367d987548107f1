// The visible part of the step: [from, to] in seconds, `top` in pixels.

/** @typedef {{ y: number, height: number }} Extent of a row */

export class Viewport {
  constructor() {
    this.from = 0;
    this.to = 0;
    this.top = 0;
    this.extent = 0; // seconds that can be shown
    this.left = 172; // gutter with the names of devices and streams
    this.axis = 22;
    this.width = 0;
    this.height = 0;
  }

  get scale() { return (this.width - this.left) / (this.to - this.from); }
  /** @param {number} time */
  x(time) { return this.left + (time - this.from) * this.scale; }
  /** @param {number} x */
  time(x) { return this.from + (x - this.left) / this.scale; }
  get isFit() { return this.from <= 0 && this.to >= this.extent * (1 - 1e-9); }

  /**
   * A user who sees the whole step goes on seeing it; one who zoomed in keeps the place.
   * @param {number} extent
   */
  setExtent(extent) {
    const fit = this.to <= this.from || this.isFit;
    this.extent = extent;
    if (fit || this.from >= extent) this.fit();
    else this.set(this.from, this.to);
  }

  fit() { this.from = 0; this.to = this.extent; }

  /**
   * @param {number} from
   * @param {number} to
   */
  set(from, to) {
    const least = this.extent * 1e-7; // beyond that float32 durations lose their meaning
    const span = Math.min(Math.max(to - from, least), this.extent);
    this.from = Math.min(Math.max(from, 0), this.extent - span);
    this.to = this.from + span;
  }

  /** @param {number} factor */
  zoom(factor, x = (this.left + this.width) / 2) {
    const at = this.time(x);
    this.set(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  /** @param {number} share */
  pan(share) {
    const by = (this.to - this.from) * share;
    this.set(this.from + by, this.to + by);
  }

  /**
   * @param {number} by
   * @param {number} contentHeight
   */
  scroll(by, contentHeight) {
    const before = this.top;
    this.top = Math.max(0, Math.min(this.top + by, contentHeight - (this.height - this.axis)));
    return this.top !== before;
  }

  /**
   * Bring a row and a time interval into view, moving no more than needed.
   * @param {Extent | undefined} row
   * @param {number} start
   * @param {number} end
   */
  reveal(row, start, end) {
    if (row) {
      if (row.y < this.top) this.top = row.y - 4;
      else if (row.y + row.height > this.top + this.height - this.axis) this.top = row.y + row.height - (this.height - this.axis) + 4;
      this.top = Math.max(0, this.top);
    }
    if (end < this.from || start > this.to) {
      const half = (this.to - this.from) / 2;
      this.set((start + end) / 2 - half, (start + end) / 2 + half);
    }
  }
}
