// Numbers for people. Inside the views everything is in seconds and bytes.

/** @typedef {[factor: number, unit: string][]} Steps */

/**
 * @param {number} value
 * @param {Steps} steps
 * @param {number} digits
 */
function scaled(value, steps, digits) {
  const size = Math.abs(value);
  const [factor, unit] = steps.find(([limit]) => size >= limit) ?? steps[steps.length - 1];
  return `${Number((value / factor).toPrecision(digits))} ${unit}`;
}

/** @type {Steps} */
const SECONDS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
/** @type {Steps} */
const BYTES = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
/** @type {Steps} */
const BANDWIDTH = [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1, "B/s"]];

/** @param {number} value */
export const seconds = (value, digits = 4) => (value === 0 ? "0 s" : scaled(value, SECONDS, digits));
/** @param {number} value */
export const bytes = (value, digits = 4) => scaled(value, BYTES, digits);
/** @param {number} value */
export const bandwidth = (value) => scaled(value, BANDWIDTH, 4);
/** @param {number} share */
export const percent = (share) => `${(100 * share).toFixed(share !== 0 && Math.abs(share) < 0.0995 ? 1 : 0)} %`;

/**
 * Rising numbers with runs drawn together: 0-3, 8, 10-11; cut off where it gets long.
 * @param {number[]} numbers
 */
export function ranges(numbers, most = 12) {
  /** @type {[first: number, last: number][]} */
  const runs = [];
  for (const number of numbers) {
    const last = runs.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else runs.push([number, number]);
  }
  const words = runs.slice(0, most).map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`));
  return words.join(", ") + (runs.length > most ? ", …" : "");
}
