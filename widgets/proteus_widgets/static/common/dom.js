// Elements are built, never parsed: names from files are untrusted, so text is only ever set as text.

/** @import { Model } from "../types" */
/** @typedef {Record<string, string | number | boolean | null | undefined | (() => void)>} Attributes */
/** @typedef {Node | string | null | undefined} Child */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @template {Element} T
 * @param {T} node
 * @param {Attributes} attributes
 * @param {Child[]} children
 */
function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value); // onclick and the like
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/**
 * An HTML element.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {Child[]} children
 */
export const h = (tag, attributes = {}, ...children) => build(document.createElement(tag), attributes, children);
/**
 * An SVG element.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {Child[]} children
 */
export const svg = (tag, attributes = {}, ...children) => build(document.createElementNS(SVG, tag), attributes, children);

/**
 * JupyterLab listens for single letters (D D deletes the cell), whatever has the focus inside a cell: they end here.
 * Its mark for that only counts on the focused element itself, so it alone would leave out our buttons.
 * @param {HTMLElement} el
 * @param {string} name
 */
export function prepare(el, name) {
  el.classList.add("pt", `pt-${name}`);
  el.setAttribute("data-lm-suppress-shortcuts", "true");
  el.tabIndex = -1; // a click beside its parts gives it the focus, else the next D D would reach the notebook
  el.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
  });
  el.addEventListener("keydown", (event) => sessionKey(event, el), true);
}

/**
 * Undo and redo from any view of a workbench; in a text that is being typed they are the browser's own.
 * @param {KeyboardEvent} event
 * @param {HTMLElement} el
 */
function sessionKey(event, el) {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || elementOf(event).matches("input")) return;
  const key = event.key.toLowerCase();
  const name = key === "y" || (key === "z" && event.shiftKey) ? "redo" : key === "z" ? "undo" : "";
  const button = name && el.closest(".pt-workbench")?.querySelector(`.pt-headline [data-action="${name}"]`);
  if (!(button instanceof HTMLElement)) return;
  button.click();
  taken(event);
}

/**
 * Where an event of the page happened.
 * @param {Event} event
 */
export function elementOf(event) {
  return /** @type {HTMLElement} */ (event.target);
}

/** @param {Event} event */
export function taken(event) {
  event.preventDefault();
  event.stopPropagation();
}

let uniqueIds = 0;
/** @param {string} stem */
export const uniqueId = (stem) => `pt-${stem}-${uniqueIds++}`;

/**
 * Subscribe to traits; returns one function that ends all subscriptions.
 * @template Traits
 * @param {Model<Traits>} model
 * @param {Partial<Record<keyof Traits & string, () => void>>} handlers
 */
export function watch(model, handlers) {
  const entries = /** @type {[string, () => void][]} */ (Object.entries(handlers));
  for (const [name, handler] of entries) model.on(`change:${name}`, handler);
  return () => entries.forEach(([name, handler]) => model.off(`change:${name}`, handler));
}
