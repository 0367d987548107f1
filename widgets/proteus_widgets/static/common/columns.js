/** @import { Column } from "../types" */

/**
 * A column as a typed array: it arrives as DataView with any offset, and a typed array needs an aligned one.
 * @template T
 * @param {Column} view
 * @param {{ BYTES_PER_ELEMENT: number, new (buffer: ArrayBuffer, offset?: number, length?: number): T }} Type
 */
export function column(view, Type) {
  const { buffer, byteOffset, byteLength } = view;
  const size = Type.BYTES_PER_ELEMENT;
  if (byteOffset % size === 0) return new Type(buffer, byteOffset, byteLength / size);
  return new Type(buffer.slice(byteOffset, byteOffset + byteLength));
}

/**
 * A column that may not have been sent.
 * @template T
 * @param {Column | undefined} view
 * @param {{ BYTES_PER_ELEMENT: number, new (buffer: ArrayBuffer, offset?: number, length?: number): T }} Type
 */
export const columnOrNull = (view, Type) => (view ? column(view, Type) : null);

/**
 * First index in [low, high) whose value is not below `value`.
 * @param {ArrayLike<number>} values
 * @param {number} low
 * @param {number} high
 * @param {number} value
 */
export function lowerBound(values, low, high, value) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
