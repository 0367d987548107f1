// Elements are built, never parsed: names from files are untrusted, so text is only ever set as text.

const SVG = "http://www.w3.org/2000/svg";

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const h = (tag, attributes = {}, ...children) => build(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => build(document.createElementNS(SVG, tag), attributes, children);

// JupyterLab listens for single letters (D D deletes the cell), whatever has the focus inside a cell: they end here.
// Its mark for that only counts on the focused element itself, so it alone would leave out our buttons.
export function prepare(el, name) {
  el.classList.add("pt", `pt-${name}`);
  el.setAttribute("data-lm-suppress-shortcuts", "true");
  el.tabIndex = -1; // a click beside its parts gives it the focus, else the next D D would reach the notebook
  el.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
  });
  el.addEventListener("keydown", (event) => sessionKey(event, el), true);
}

// Undo and redo from any view of a workbench; in a text that is being typed they are the browser's own.
function sessionKey(event, el) {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || event.target.matches("input")) return;
  const key = event.key.toLowerCase();
  const name = { z: event.shiftKey ? "redo" : "undo", y: "redo" }[key];
  const button = name && el.closest(".pt-workbench")?.querySelector(`.pt-headline [data-action="${name}"]`);
  if (!button) return;
  button.click();
  taken(event);
}

export function taken(event) {
  event.preventDefault();
  event.stopPropagation();
}

let uniqueIds = 0;
export const uniqueId = (stem) => `pt-${stem}-${uniqueIds++}`;

// Subscribe to traits; returns one function that ends all subscriptions.
export function watch(model, handlers) {
  const entries = Object.entries(handlers);
  for (const [name, handler] of entries) model.on(`change:${name}`, handler);
  return () => entries.forEach(([name, handler]) => model.off(`change:${name}`, handler));
}
