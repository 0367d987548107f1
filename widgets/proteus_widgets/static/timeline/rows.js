/** @import { Lane } from "../types" */

// Where each row stands: one group per device, its compute stream tall, its other streams slim.
// A device that stands for others unfolds into all of them: rows that show the same lanes again.
// One that was unfolded in an earlier result may stand for itself alone in this one.

/**
 * What the rows of one rank have in common.
 * @typedef {object} RankRow
 * @property {number} device that the lanes are of
 * @property {number} rank
 * @property {boolean} copy whether it shows the lanes of another rank
 * @property {string} label
 * @property {number} multiplicity
 * @property {boolean} unfolded
 * @property {string} stream
 * @property {boolean} first whether it carries the label
 * @property {number} y
 * @property {number} height
 */
/** @typedef {RankRow & { type: "lane", lane: number }} LaneRow */
/** @typedef {RankRow & { type: "memory" }} MemoryRow */
/** @typedef {LaneRow | MemoryRow} Row */

const COMPUTE = 18;
const MEMORY = 26;
const SLIM = 9;
const GAP = 8;

/**
 * @param {Lane[]} lanes
 * @param {{ has(device: number): boolean }} memoryDevices
 * @param {Record<string, number[]>} members
 * @param {Set<number>} unfolded
 */
export function layoutRows(lanes, memoryDevices, members, unfolded) {
  /** @type {Row[]} */
  const rows = [];
  let y = 4;
  for (const group of groups(lanes)) {
    const { device, multiplicity } = group[0];
    const ranks = (unfolded.has(device) && members[device]) || [device];
    for (const rank of ranks) {
      if (rows.length) y += GAP;
      const common = { device, rank, copy: rank !== device, label: `GPU ${rank}`, multiplicity, unfolded: ranks.length > 1 };
      for (const [i, { stream, index }] of group.entries()) {
        const height = stream === "compute" ? COMPUTE : SLIM;
        rows.push({ ...common, type: "lane", lane: index, stream, first: i === 0, y, height });
        y += height + 2;
      }
      if (memoryDevices.has(device)) {
        rows.push({ ...common, type: "memory", stream: "memory", first: false, y, height: MEMORY });
        y += MEMORY + 2;
      }
    }
  }
  return { rows, height: y + 4 };
}

/**
 * Neighbouring lanes of one device.
 * @param {Lane[]} lanes
 */
function groups(lanes) {
  /** @type {(Lane & { index: number })[][]} */
  const found = [];
  lanes.forEach((lane, index) => {
    if (!index || lanes[index - 1].device !== lane.device) found.push([]);
    found[found.length - 1].push({ ...lane, index });
  });
  return found;
}

/**
 * @param {Row[]} rows
 * @param {number} top
 * @param {number} bottom
 */
export function visibleRows(rows, top, bottom) {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle].y + rows[middle].height < top) low = middle + 1;
    else high = middle;
  }
  let end = low;
  while (end < rows.length && rows[end].y <= bottom) end++;
  return rows.slice(low, end);
}

/**
 * @param {Row[]} rows
 * @param {number} y
 */
export function rowAt(rows, y) {
  return visibleRows(rows, y, y).find((row) => y >= row.y - 1 && y <= row.y + row.height + 1) ?? null;
}
