import { seconds, bytes } from "../common/format.js";
/** @import { Theme } from "../common/theme.js" */
/** @import { Arrow, Kind } from "../types" */
/** @import { LaneRow, MemoryRow, Row } from "./rows.js" */
/** @import { Frame } from "./spans.js" */
/** @import { Viewport } from "./viewport.js" */

/** @typedef {CanvasRenderingContext2D} Context */
/** @typedef {{ device: number, time: Float64Array, live: Float64Array, capacity: number, peak: number }} Track live bytes of a device over time */

/** @param {HTMLCanvasElement} canvas */
export function contextOf(canvas) {
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser draws no canvas");
  return context;
}

// Hatches, so that no kind is told apart by its colour alone.
/** @type {Record<string, [x0: number, y0: number, x1: number, y1: number][]>} */
const HATCHES = { "/": [[0, 6, 6, 0], [-1, 1, 1, -1], [5, 7, 7, 5]], "\\": [[0, 0, 6, 6], [-1, 5, 1, 7], [5, -1, 7, 1]], "-": [[0, 3, 6, 3]], "|": [[3, 0, 3, 6]] };

/**
 * @param {Context} ctx
 * @param {string} sign
 * @param {string} colour
 * @param {number} ratio
 */
export function hatch(ctx, sign, colour, ratio) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6 * ratio;
  const pen = contextOf(tile);
  pen.scale(ratio, ratio);
  pen.strokeStyle = colour;
  pen.lineWidth = 1.1;
  pen.beginPath();
  for (const [x0, y0, x1, y1] of sign === "x" ? [...HATCHES["/"], ...HATCHES["\\"]] : HATCHES[sign]) {
    pen.moveTo(x0, y0);
    pen.lineTo(x1, y1);
  }
  pen.stroke();
  const pattern = ctx.createPattern(tile, "repeat");
  pattern?.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}

/**
 * @param {Context} ctx
 * @param {number[][]} lists
 * @param {string[]} colours
 * @param {number} alpha
 */
export function fillBoxes(ctx, lists, colours, alpha) {
  ctx.globalAlpha = alpha;
  lists.forEach((list, kind) => {
    ctx.fillStyle = colours[kind];
    for (let i = 0; i < list.length; i += 4) ctx.fillRect(list[i], list[i + 1], list[i + 2], list[i + 3]);
  });
  ctx.globalAlpha = 1;
}

/**
 * @param {Context} ctx
 * @param {number[][]} lists
 * @param {(CanvasPattern | null)[]} hatches
 */
export function fillHatches(ctx, lists, hatches) {
  lists.forEach((list, kind) => {
    const pattern = hatches[kind];
    if (!pattern) return;
    ctx.beginPath();
    for (let i = 0; i < list.length; i += 4) if (list[i + 2] >= 5) ctx.rect(list[i], list[i + 1], list[i + 2], list[i + 3]);
    ctx.fillStyle = pattern;
    ctx.fill();
  });
}

/**
 * @param {Context} ctx
 * @param {number[]} list
 * @param {string} colour
 */
export function strokeBoxes(ctx, list, colour) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1.5;
  for (let i = 0; i < list.length; i += 4) ctx.strokeRect(list[i] + 0.75, list[i + 1] + 0.75, Math.max(list[i + 2] - 1.5, 0.5), list[i + 3] - 1.5);
}

/**
 * The micro-batch number of a run of spans; a span alone tells its name as well where there is room.
 * @param {Context} ctx
 * @param {Frame} frame
 * @param {number[]} labels
 * @param {Kind[]} kinds
 * @param {Uint8Array | null} emphasis
 * @param {string} family
 */
export function writeLabels(ctx, frame, labels, kinds, emphasis, family) {
  ctx.textBaseline = "middle";
  ctx.textAlign = "center";
  ctx.font = `10px ${family}`;
  for (let q = 0; q < labels.length; q += 5) {
    const [i, count, x, y, width] = [labels[q], labels[q + 1], labels[q + 2], labels[q + 3], labels[q + 4]];
    if (emphasis && !emphasis[i]) continue;
    const micro = frame.microOf(i);
    const name = count === 1 ? frame.names[frame.name[i]] : "";
    const both = micro >= 0 ? `${micro} ${name}` : name;
    const text = name && both.length * 5.8 + 6 <= width ? both : micro >= 0 && String(micro).length * 6 + 4 <= width ? String(micro) : "";
    if (!text) continue;
    ctx.fillStyle = kinds[frame.kind[i]].ink;
    ctx.fillText(text, x + width / 2, y + 0.5);
  }
}

/**
 * Round times on the axis: 1, 2 or 5 times a power of ten, about one in 110 pixels.
 * @param {number} from
 * @param {number} to
 * @param {number} pixels
 */
export function ticks(from, to, pixels) {
  const rough = ((to - from) / pixels) * 110;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
  const out = [];
  for (let n = Math.ceil(from / step); n * step <= to; n++) out.push(n * step);
  return out;
}

/**
 * @param {Context} ctx
 * @param {Viewport} viewport
 * @param {Theme} theme
 * @param {number[]} times
 */
export function paintAxis(ctx, viewport, theme, times) {
  const { width, axis } = viewport;
  ctx.fillStyle = theme.background;
  ctx.fillRect(0, 0, width, axis);
  ctx.fillStyle = theme.faint;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.font = `11px ${theme.family}`;
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 1;
  ctx.beginPath();
  for (const time of times) {
    const x = Math.round(viewport.x(time)) + 0.5;
    ctx.moveTo(x, axis - 5);
    ctx.lineTo(x, axis);
    const text = seconds(time, 6);
    if (x + 4 + text.length * 6.2 < width) ctx.fillText(text, x + 4, axis / 2);
  }
  ctx.moveTo(0, axis + 0.5);
  ctx.lineTo(width, axis + 0.5);
  ctx.stroke();
}

/**
 * @param {Context} ctx
 * @param {Viewport} viewport
 * @param {Theme} theme
 * @param {number[]} times
 */
export function paintGrid(ctx, viewport, theme, times) {
  ctx.strokeStyle = theme.line;
  ctx.globalAlpha = 0.6;
  ctx.beginPath();
  for (const time of times) {
    const x = Math.round(viewport.x(time)) + 0.5;
    ctx.moveTo(x, viewport.axis);
    ctx.lineTo(x, viewport.height);
  }
  ctx.stroke();
  ctx.globalAlpha = 1;
}

/**
 * @param {Context} ctx
 * @param {string} text
 * @param {number} width
 */
function clipped(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && ctx.measureText(`${text.slice(0, end)}…`).width > width) end--;
  return `${text.slice(0, end)}…`;
}

/**
 * @param {Context} ctx
 * @param {Row[]} rows
 * @param {Viewport} viewport
 * @param {Theme} theme
 */
export function paintGutter(ctx, rows, viewport, theme) {
  const { left, axis, top, height } = viewport;
  ctx.fillStyle = theme.background;
  ctx.fillRect(0, axis + 1, left - 6, height);
  ctx.textBaseline = "middle";
  for (const row of rows) {
    const y = axis + row.y - top;
    if (row.first) {
      ctx.font = `600 11px ${theme.family}`;
      ctx.fillStyle = theme.text;
      ctx.textAlign = "left";
      const copies = row.multiplicity < 2 ? "" : row.unfolded ? (row.copy ? "" : " ▾") : ` ×${row.multiplicity} ▸`;
      ctx.fillText(clipped(ctx, row.label + copies, left - 72), 6, y + row.height / 2 + 0.5);
    }
    ctx.font = `${row.height >= 14 ? 10 : 9}px ${theme.family}`;
    ctx.fillStyle = theme.faint;
    ctx.textAlign = "right";
    ctx.fillText(clipped(ctx, row.stream, row.first ? 60 : left - 20), left - 12, y + row.height / 2 + 0.5);
  }
}

/**
 * Live bytes of a device as a filled step function, with its capacity as the top of the row.
 * @param {Context} ctx
 * @param {MemoryRow} row
 * @param {Track} track
 * @param {Viewport} viewport
 * @param {Theme} theme
 * @param {string} colour
 */
export function paintMemory(ctx, row, track, viewport, theme, colour) {
  const { time, live, capacity } = track;
  if (!time.length) return;
  const base = viewport.axis + row.y - viewport.top + row.height;
  const full = Math.max(capacity, track.peak);
  /** @param {number} value */
  const level = (value) => base - (value / full) * (row.height - 2);
  ctx.fillStyle = theme.band;
  ctx.fillRect(viewport.left, base - row.height, viewport.width - viewport.left, row.height);
  ctx.beginPath();
  ctx.moveTo(viewport.left, base);
  let highest = 0;
  let pixel = -1;
  for (let i = 0; i < time.length; i++) {
    const next = i + 1 < time.length ? time[i + 1] : viewport.extent;
    if (next < viewport.from || time[i] > viewport.to) continue;
    const x0 = Math.max(viewport.left, viewport.x(time[i]));
    const x1 = Math.min(viewport.width, viewport.x(next));
    highest = (x0 | 0) === pixel ? Math.max(highest, live[i]) : live[i]; // the peak of a pixel must stay visible
    pixel = x0 | 0;
    ctx.lineTo(x0, level(highest));
    ctx.lineTo(x1, level(live[i]));
  }
  ctx.lineTo(viewport.width, base);
  ctx.closePath();
  ctx.globalAlpha = 0.45;
  ctx.fillStyle = colour;
  ctx.fill();
  ctx.globalAlpha = 1;
  if (capacity < full) {
    ctx.strokeStyle = theme.text;
    ctx.setLineDash([4, 3]);
    ctx.beginPath();
    ctx.moveTo(viewport.left, Math.round(level(capacity)) + 0.5);
    ctx.lineTo(viewport.width, Math.round(level(capacity)) + 0.5);
    ctx.stroke();
    ctx.setLineDash([]);
  }
  const text = `peak ${bytes(track.peak, 3)}`;
  ctx.font = `10px ${theme.family}`;
  const width = ctx.measureText(text).width + 8;
  ctx.fillStyle = theme.background;
  ctx.globalAlpha = 0.8;
  ctx.fillRect(viewport.width - width - 2, base - 16, width, 14);
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.text;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillText(text, viewport.width - width + 2, base - 8.5);
}

/**
 * Arrows of the selected span: what it waited for, and what waited for it.
 * @param {Context} ctx
 * @param {Arrow[]} arrows
 * @param {Map<number, LaneRow>} rowOfLane
 * @param {Viewport} viewport
 * @param {Theme} theme
 */
export function paintArrows(ctx, arrows, rowOfLane, viewport, theme) {
  ctx.strokeStyle = ctx.fillStyle = theme.text;
  ctx.lineWidth = 1.3;
  for (const arrow of arrows) {
    const a = rowOfLane.get(arrow.from_lane);
    const b = rowOfLane.get(arrow.to_lane);
    if (!a || !b) continue;
    const [x0, x1] = [viewport.x(arrow.from_s), viewport.x(arrow.to_s)];
    const [y0, y1] = [a, b].map((row) => viewport.axis + row.y + row.height / 2 - viewport.top);
    if (Math.max(x0, x1) < viewport.left || Math.min(x0, x1) > viewport.width) continue;
    const bend = Math.max(14, Math.abs(x1 - x0) / 2);
    ctx.beginPath();
    ctx.moveTo(x0, y0);
    ctx.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(x1 + 1, y1);
    ctx.lineTo(x1 - 6, y1 - 3.5);
    ctx.lineTo(x1 - 6, y1 + 3.5);
    ctx.fill();
  }
}

/**
 * @param {Context} ctx
 * @param {number | null} time
 * @param {Viewport} viewport
 * @param {Theme} theme
 */
export function paintCursor(ctx, time, viewport, theme) {
  if (time === null || time < viewport.from || time > viewport.to) return;
  const x = Math.round(viewport.x(time)) + 0.5;
  ctx.strokeStyle = theme.text;
  ctx.lineWidth = 1;
  ctx.globalAlpha = 0.55;
  ctx.beginPath();
  ctx.moveTo(x, viewport.axis);
  ctx.lineTo(x, viewport.height);
  ctx.stroke();
  ctx.globalAlpha = 1;
}

/**
 * @param {Context} ctx
 * @param {[number, number]} range
 * @param {Viewport} viewport
 * @param {Theme} theme
 */
export function paintMeasure(ctx, range, viewport, theme) {
  const [x0, x1] = [Math.min(...range), Math.max(...range)].map((time) => viewport.x(time));
  ctx.globalAlpha = 0.14;
  ctx.fillStyle = theme.brand;
  ctx.fillRect(x0, viewport.axis, x1 - x0, viewport.height);
  ctx.globalAlpha = 1;
  const text = seconds(Math.abs(range[1] - range[0]));
  ctx.font = `600 11px ${theme.family}`;
  const width = ctx.measureText(text).width + 12;
  const at = Math.min(Math.max((x0 + x1) / 2 - width / 2, viewport.left), viewport.width - width);
  ctx.fillStyle = theme.brand;
  ctx.fillRect(at, 2, width, 17);
  ctx.fillStyle = theme.background;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillText(text, at + 6, 11);
}
