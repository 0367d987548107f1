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

// proteus_widgets/static/panels/tabs.js
function render({ model, el }) {
  prepare(el, "tabs");
  const list = h("div", { role: "tablist", class: "pt-tab-list", "aria-label": "More about this result" });
  const choose = (index) => {
    model.set("selected", index);
    model.save_changes();
  };
  const tabs = model.get("titles").map((title, index) => h("button", { type: "button", role: "tab", class: "pt-tab", onclick: () => choose(index) }, title));
  list.append(...tabs);
  el.append(list);
  list.addEventListener("keydown", (event) => {
    const at = tabs.findIndex((tab) => tab === event.target);
    const next = (/* @__PURE__ */ new Map([["ArrowRight", at + 1], ["ArrowLeft", at - 1], ["Home", 0], ["End", tabs.length - 1]])).get(event.key);
    if (at < 0 || next === void 0) return;
    const index = (next + tabs.length) % tabs.length;
    tabs[index].focus();
    choose(index);
    taken(event);
  });
  const mark = () => {
    const selected = model.get("selected");
    tabs.forEach((tab, index) => {
      tab.setAttribute("aria-selected", String(index === selected));
      tab.tabIndex = index === Math.max(selected, 0) ? 0 : -1;
    });
  };
  const unwatch = watch(model, { selected: mark });
  mark();
  if (model.get("selected") < 0) choose(0);
  return unwatch;
}
var tabs_default = { render };
export {
  tabs_default as default
};
