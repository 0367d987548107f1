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

// proteus_widgets/static/common/format.js
function scaled(value, steps, digits) {
  const size = Math.abs(value);
  const [factor, unit] = steps.find(([limit]) => size >= limit) ?? steps[steps.length - 1];
  return `${Number((value / factor).toPrecision(digits))} ${unit}`;
}
var SECONDS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
var BYTES = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
var seconds = (value, digits = 4) => value === 0 ? "0 s" : scaled(value, SECONDS, digits);
var percent = (share) => `${(100 * share).toFixed(share !== 0 && Math.abs(share) < 0.0995 ? 1 : 0)} %`;

// proteus_widgets/static/common/probe.js
function probe(view, values) {
  const all = window.proteusProbe ||= {};
  all[view] = { ...all[view], ...values, at: performance.now() };
}

// proteus_widgets/static/common/table.js
function table(caption, head, rows) {
  const titles = head.map((text) => text ? h("th", { scope: "col" }, text) : h("td"));
  return h("table", { class: "pt-table" }, h("caption", {}, caption), h("thead", {}, h("tr", {}, ...titles)), h("tbody", {}, ...rows));
}

// proteus_widgets/static/panels/why.js
function ladder(steps) {
  const total = Math.max(...steps.map((step) => step.until_s), 1e-12);
  return steps.map((step) => {
    const from = Math.min(step.until_s, step.until_s - step.seconds) / total;
    const row = h(
      "tr",
      {},
      h("th", { scope: "row" }, step.label),
      h("td", { class: "pt-number" }, seconds(step.seconds)),
      h("td", { class: "pt-number" }, percent(step.seconds / total)),
      h("td", { class: "pt-bar-cell" }, h("i", { class: `pt-bar${step.ideal ? " pt-bar-ideal" : ""}`, style: `margin-left: ${from * 100}%; width: ${Math.abs(step.seconds) / total * 100}%` }))
    );
    row.title = step.note ?? "";
    return row;
  });
}
function render({ model, el }) {
  prepare(el, "why");
  const node = ({ label, node: id }) => h("button", { type: "button", class: "pt-link-text", "aria-label": `Select ${label}`, onclick: () => model.send({ type: "select", what: "node", id }) }, label);
  const load = () => {
    const why = model.get("why");
    if (!why.ladder) return;
    const parts = [table("From ideal to actual", ["", "time", "share", ""], ladder(why.ladder))];
    const side = h("div", { class: "pt-why-side" });
    if (why.advice === false) side.replaceChildren();
    else if (why.changes.length) {
      const items = why.changes.map((change, i) => {
        const button = h("button", { type: "button", class: "pt-button", onclick: () => model.send({ type: "apply", index: i }) }, "Apply");
        button.setAttribute("aria-label", `Apply: ${change.label}`);
        return h("li", {}, button, h("span", { class: "pt-why-change" }, change.label), h("span", { class: "pt-number pt-good" }, change.gain));
      });
      side.append(h("h4", {}, "What would help most"), h("ul", { class: "pt-changes" }, ...items));
    } else side.append(h("h4", {}, "What would help most"), h("p", { class: "pt-faint" }, why.searching ? "Trying similar strategies…" : "No similar strategy is faster."));
    if (why.levers.length) side.append(table("If the machine were better", ["", "step time"], why.levers.map((lever) => h("tr", {}, h("th", { scope: "row" }, lever.label), h("td", { class: "pt-number" }, lever.gain)))));
    if (why.exposed.length) side.append(table("Exposed communication by node", ["", "time"], why.exposed.map((entry) => h("tr", {}, h("th", { scope: "row" }, entry.node < 0 ? entry.label : node(entry)), h("td", { class: "pt-number" }, seconds(entry.seconds))))));
    side.append(h("p", { class: "pt-faint" }, `Step time: ${why.band}`));
    el.replaceChildren(h("div", { class: "pt-why-body" }, ...parts, side));
    probe("why", { steps: why.ladder.length, changes: why.changes.length });
  };
  const unwatch = watch(model, { why: load });
  load();
  return unwatch;
}
var why_default = { render };
export {
  why_default as default
};
