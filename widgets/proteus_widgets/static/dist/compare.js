// proteus_widgets/static/common/dom.js
function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === void 0 || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== void 0));
  return node;
}
var h = (tag, attributes = {}, ...children) => build(document.createElement(tag), attributes, children);
function prepare(el, name) {
  el.classList.add("pt", `pt-${name}`);
  el.setAttribute("data-lm-suppress-shortcuts", "true");
  el.tabIndex = -1;
  el.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
  });
  el.addEventListener("keydown", (event) => sessionKey(event, el), true);
}
function sessionKey(event, el) {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || elementOf(event).matches("input")) return;
  const key = event.key.toLowerCase();
  const name = key === "y" || key === "z" && event.shiftKey ? "redo" : key === "z" ? "undo" : "";
  const button = name && el.closest(".pt-workbench")?.querySelector(`.pt-headline [data-action="${name}"]`);
  if (!(button instanceof HTMLElement)) return;
  button.click();
  taken(event);
}
function elementOf(event) {
  return (
    /** @type {HTMLElement} */
    event.target
  );
}
function taken(event) {
  event.preventDefault();
  event.stopPropagation();
}
function watch(model, handlers) {
  const entries = (
    /** @type {[string, () => void][]} */
    Object.entries(handlers)
  );
  for (const [name, handler] of entries) model.on(`change:${name}`, handler);
  return () => entries.forEach(([name, handler]) => model.off(`change:${name}`, handler));
}

// proteus_widgets/static/common/table.js
function table(caption, head, rows) {
  const titles = head.map((text) => text ? h("th", { scope: "col" }, text) : h("td"));
  return h("table", { class: "pt-table" }, h("caption", {}, caption), h("thead", {}, h("tr", {}, ...titles)), h("tbody", {}, ...rows));
}

// proteus_widgets/static/panels/compare.js
function render({ model, el }) {
  prepare(el, "compare");
  const load = () => {
    const comparison = model.get("comparison");
    if (!comparison.rows) {
      el.replaceChildren(h("p", { class: "pt-faint" }, "Pin a result and change the strategy to compare both here."));
      return;
    }
    const { title, rows, changes } = comparison;
    const line = (row) => h("tr", {}, h("th", { scope: "row" }, row.label), h("td", { class: "pt-number" }, row.pinned), h("td", { class: "pt-number" }, row.now), h("td", { class: `pt-number ${row.good === null ? "" : row.good ? "pt-good" : "pt-bad"}` }, row.change));
    const list = h("ul", { class: "pt-differences" }, ...changes.map((text) => h("li", {}, text)));
    el.replaceChildren(h(
      "div",
      { class: "pt-why-body" },
      table(title, ["", "pinned", "now", "change"], rows.map(line)),
      h("div", { class: "pt-why-side" }, h("h4", {}, "What changed"), changes.length ? list : h("p", { class: "pt-faint" }, "Nothing yet."))
    ));
  };
  const unwatch = watch(model, { comparison: load });
  load();
  return unwatch;
}
var compare_default = { render };
export {
  compare_default as default
};
