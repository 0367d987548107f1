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

// proteus_widgets/static/panels/code.js
function render({ model, el }) {
  prepare(el, "code");
  const block = (title, name) => {
    const text = h("pre", { tabindex: 0, class: "pt-source", role: "region", "aria-label": `${title} of the strategy` });
    const said = h("span", { class: "pt-faint", role: "status" });
    const select = () => getSelection()?.selectAllChildren(text);
    const copy = async () => {
      try {
        await navigator.clipboard.writeText(text.textContent);
        said.textContent = "copied";
      } catch {
        select();
        said.textContent = "selected: copy it with the keyboard";
      }
    };
    const load = () => {
      text.textContent = model.get(name);
      said.textContent = "";
    };
    const button = h("button", { type: "button", class: "pt-button", "aria-label": `Copy the ${title}`, onclick: copy }, "Copy");
    el.append(h("section", { class: "pt-code-block" }, h("div", { class: "pt-code-head" }, h("span", { class: "pt-title" }, title), said, button), text));
    load();
    return [name, load];
  };
  return watch(model, Object.fromEntries([block("Python", "python"), block("YAML", "yaml")]));
}
var code_default = { render };
export {
  code_default as default
};
