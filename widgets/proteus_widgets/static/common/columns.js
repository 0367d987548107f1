// Columns arrive as DataView with any offset; a typed array needs an aligned one.

export function column(view, Type) {
  if (!view) return null;
  const { buffer, byteOffset, byteLength } = view;
  const size = Type.BYTES_PER_ELEMENT;
  if (byteOffset % size === 0) return new Type(buffer, byteOffset, byteLength / size);
  return new Type(buffer.slice(byteOffset, byteOffset + byteLength));
}

// First index in [low, high) whose value is not below `value`.
export function lowerBound(values, low, high, value) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
