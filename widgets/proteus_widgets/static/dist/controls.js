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
var uniqueIds = 0;
var uniqueId = (stem) => `pt-${stem}-${uniqueIds++}`;
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

// proteus_widgets/static/panels/controls.js
var ControlsView = class {
  /**
   * @param {Model<ControlsTraits>} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.body = h("div", { class: "pt-controls-body", role: "group", "aria-label": "Strategy" });
    this.hint = h("div", { class: "pt-hint", "aria-live": "polite" });
    this.more = h("div", { role: "group", "aria-label": "More settings" });
    el.append(this.body, this.more, this.hint);
    this.inputs = /* @__PURE__ */ new Map();
    this.names = "";
  }
  load() {
    const fields = this.model.get("fields");
    const names = fields.map((field) => field.name).join();
    if (names !== this.names) this.build(fields);
    this.names = names;
    fields.forEach((field) => this.update(field));
    probe("controls", { values: Object.fromEntries(fields.map((field) => [field.name, field.value])) });
  }
  /** @param {string} name */
  entry(name) {
    return (
      /** @type {Entry} */
      this.inputs.get(name)
    );
  }
  /** @param {Field[]} fields */
  build(fields) {
    this.inputs.clear();
    const groups = /* @__PURE__ */ new Map();
    const more = h("details", { class: "pt-more" }, h("summary", {}, "More settings"));
    const others = h("div", { class: "pt-controls-body" });
    more.append(others);
    for (const field of fields) {
      const key = `${field.first} ${field.group}`;
      const group = groups.get(key) ?? h("div", { class: "pt-group", role: "group", "aria-label": field.group }, h("span", { class: "pt-group-name" }, field.group));
      if (!groups.has(key)) (field.first ? this.body : others).append(group);
      groups.set(key, group);
      const input = field.options ? h("select") : this.typed(field);
      input.name = field.name;
      if (field.narrow) input.classList.add("pt-narrow");
      const entry = { input, field };
      input.addEventListener("input", () => {
        entry.typing = true;
      });
      input.addEventListener("blur", () => {
        entry.typing = false;
      });
      input.addEventListener("change", () => this.send(field.name));
      input.addEventListener("keydown", (event) => event.stopPropagation());
      group.append(h("label", { class: "pt-control" }, h("span", {}, field.label), input));
      this.inputs.set(field.name, entry);
    }
    this.more.replaceChildren(more);
  }
  /**
   * An input for a number or a text; empty says nothing, and its placeholder shows what holds then.
   * @param {Field} field
   */
  typed(field) {
    if (field.input === "number") return h("input", { type: "number", min: field.min ?? 0, step: field.step ?? 1 });
    const input = h("input", { type: "text", spellcheck: "false" });
    if (field.suggestions?.length) {
      const list = h("datalist", { id: uniqueId(field.name) }, ...field.suggestions.map((value) => h("option", { value })));
      input.setAttribute("list", list.id);
      this.more.before(list);
    }
    return input;
  }
  /** @param {Field} field */
  update(field) {
    const entry = this.entry(field.name);
    entry.field = field;
    const { input } = entry;
    const key = JSON.stringify(field.options);
    if (field.options && key !== entry.key) {
      entry.key = key;
      input.replaceChildren(...field.options.map((option, i) => {
        const item = h("option", { value: i, disabled: Boolean(option.reason) });
        item.textContent = option.reason ? `${option.label}  –  ${option.reason}` : option.label;
        return item;
      }));
    }
    if (field.options && input instanceof HTMLSelectElement) {
      input.selectedIndex = field.options.findIndex((option) => option.value === field.value);
      const chosen = field.options[input.selectedIndex];
      const barred = field.options.filter((option) => option.reason);
      input.title = [field.tip, barred.length ? `not possible: ${barred.map((option) => `${option.label} (${option.reason})`).join("; ")}` : ""].filter(Boolean).join("\n");
      input.classList.toggle("pt-error", Boolean(chosen?.reason));
    } else if (input instanceof HTMLInputElement) {
      input.placeholder = field.default ?? "";
      input.title = field.tip;
      if (field.step) input.step = String(field.step);
      if (!entry.typing) input.value = String(field.value ?? "");
    }
  }
  /** @param {string} name */
  send(name) {
    const entry = this.entry(name);
    const { input, field } = entry;
    entry.typing = false;
    const value = input instanceof HTMLSelectElement ? field.options?.[input.selectedIndex]?.value : read(field, input.value.trim());
    if (value === void 0 || Number.isNaN(value)) return;
    this.model.send({ type: "set", name, value });
  }
  say() {
    this.hint.textContent = this.model.get("message");
    this.hint.classList.toggle("pt-error", this.model.get("failed"));
  }
};
function read(field, text) {
  if (text === "") return null;
  return field.input === "number" ? Number(text) : text;
}
function render({ model, el }) {
  prepare(el, "controls");
  const view = new ControlsView(model, el);
  const unwatch = watch(model, { fields: () => view.load(), rev: () => view.load(), message: () => view.say(), failed: () => view.say() });
  view.load();
  view.say();
  return unwatch;
}
var controls_default = { render };
export {
  controls_default as default
};
