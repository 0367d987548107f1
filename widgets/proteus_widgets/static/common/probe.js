// What the tests look at: a few numbers per view, no pixels.

/**
 * @param {string} view
 * @param {Record<string, unknown>} values
 */
export function probe(view, values) {
  const all = (window.proteusProbe ||= {});
  all[view] = { ...all[view], ...values, at: performance.now() };
}
