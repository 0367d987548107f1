// Utilisation as colour: calm blue to vermilion, in steps that stay apart in every common colour vision.
/** @type {[use: number, colour: number[]][]} */
const STOPS = [[0, [155, 178, 200]], [0.3, [86, 180, 233]], [0.6, [0, 114, 178]], [0.8, [230, 159, 0]], [1, [213, 94, 0]]];

/** @param {number} use */
export function rampColour(use) {
  const at = Math.min(1, Math.max(0, use));
  const next = Math.max(1, STOPS.findIndex(([stop]) => at <= stop));
  const [[low, from], [high, to]] = [STOPS[next - 1], STOPS[next]];
  const part = (at - low) / (high - low);
  return `rgb(${from.map((value, i) => Math.round(value + (to[i] - value) * part)).join()})`;
}
