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

// proteus_widgets/static/common/probe.js
function probe(view, values) {
  const all = window.proteusProbe ||= {};
  all[view] = { ...all[view], ...values, at: performance.now() };
}

// proteus_widgets/static/panels/headline.js
function metric({ label, value, note, change, good, tip }) {
  const item = h("div", { class: "pt-metric", role: "listitem", title: tip }, h("span", { class: "pt-metric-name" }, label), h("span", { class: "pt-metric-value" }, value));
  const sign = good === null ? "" : good ? "pt-good" : "pt-bad";
  item.append(h("span", { class: "pt-change" }, note && change ? `${note} · ` : note, h("span", { class: sign }, change || " ")));
  return item;
}
function render({ model, el }) {
  prepare(el, "headline");
  const list = h("div", { class: "pt-metrics", role: "list", "aria-live": "polite" });
  const action = (name, text, label) => h("button", { type: "button", class: "pt-button", "data-action": name, "aria-label": label, title: label, onclick: () => model.send({ type: "action", name }) }, text);
  const buttons = {
    undo: action("undo", "↶ Undo", "Undo the last change (ctrl+Z)"),
    redo: action("redo", "↷ Redo", "Redo (ctrl+shift+Z)"),
    pin: action("pin", "Pin", "Pin this result to compare later ones with it"),
    stop: action("stop", "Stop", "Stop the simulation that is running")
  };
  const busy = h("span", { class: "pt-busy", role: "status" });
  const share = h("progress", { class: "pt-progress", max: 1, "aria-label": "Share of the step that is simulated" });
  const bar = h("div", { class: "pt-actions", role: "group", "aria-label": "Session" }, busy, share, ...Object.values(buttons));
  const facts = h("p", { class: "pt-facts" });
  const warning = h("p", { class: "pt-warning", role: "status" });
  const lines = h("ul");
  const summary = h("summary");
  const assumed = h("details", { class: "pt-assumed" }, summary, lines);
  el.append(h("div", { class: "pt-headline-top" }, list, bar), facts, warning, assumed);
  const load = () => {
    list.replaceChildren(...model.get("metrics").map(metric));
    probe("headline", { metrics: Object.fromEntries(model.get("metrics").map((entry) => [entry.label, entry.value])) });
  };
  const words = () => {
    facts.textContent = model.get("facts");
    warning.textContent = model.get("warning");
    warning.hidden = !model.get("warning");
    const assumptions = model.get("assumptions");
    summary.textContent = `Assumed (${assumptions.length})`;
    lines.replaceChildren(...assumptions.map((line) => h("li", {}, line)));
    assumed.hidden = !assumptions.length;
  };
  const state = () => {
    const can = model.get("can");
    buttons.undo.disabled = !can.undo;
    buttons.redo.disabled = !can.redo;
    buttons.pin.disabled = !can.pin;
    buttons.stop.disabled = !can.stop;
    buttons.stop.hidden = !can.stop;
    buttons.pin.setAttribute("aria-pressed", String(Boolean(can.pinned)));
    busy.textContent = can.stop ? "simulating…" : "";
    share.hidden = !can.stop;
    if (can.progress) share.value = can.progress;
    else share.removeAttribute("value");
  };
  const unwatch = watch(model, { metrics: load, can: state, facts: words, warning: words, assumptions: words });
  load();
  words();
  state();
  return unwatch;
}
var headline_default = { render };
export {
  headline_default as default
};
