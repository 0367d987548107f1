import "../base.css";
import "../panels.css";
import { h, prepare, watch } from "../common/dom.js";
import { probe } from "../common/probe.js";

// Native selects and inputs: every keyboard and screen reader knows them. Impossible values stay
// visible, greyed, with their reason; one message goes out per change.

class ControlsView {
  constructor(model, el) {
    this.model = model;
    this.body = h("div", { class: "pt-controls-body", role: "group", "aria-label": "Strategy" });
    this.hint = h("div", { class: "pt-hint", "aria-live": "polite" });
    el.append(this.body, this.hint);
    this.inputs = new Map();
  }

  load() {
    const fields = this.model.get("fields");
    const names = fields.map((field) => field.name).join();
    if (names !== this.names) this.build(fields);
    this.names = names;
    fields.forEach((field) => this.update(field));
    probe("controls", { values: Object.fromEntries(fields.map((field) => [field.name, field.value])) });
  }

  build(fields) {
    this.inputs.clear();
    const groups = new Map();
    for (const field of fields) {
      if (!groups.has(field.group)) groups.set(field.group, h("div", { class: "pt-group", role: "group", "aria-label": field.group }, h("span", { class: "pt-group-name" }, field.group)));
      const input = field.options ? h("select") : h("input", { type: "number", min: field.min ?? 0, step: field.step ?? 1 });
      input.name = field.name;
      if (field.narrow) input.classList.add("pt-narrow");
      input.addEventListener("input", () => { this.inputs.get(field.name).typing = true; });
      input.addEventListener("blur", () => { this.inputs.get(field.name).typing = false; });
      input.addEventListener("change", () => this.send(field.name));
      input.addEventListener("keydown", (event) => event.stopPropagation());
      groups.get(field.group).append(h("label", { class: "pt-control" }, h("span", {}, field.label), input));
      this.inputs.set(field.name, { input });
    }
    this.body.replaceChildren(...groups.values());
  }

  update(field) {
    const entry = this.inputs.get(field.name);
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
    if (field.options) {
      input.selectedIndex = field.options.findIndex((option) => option.value === field.value);
      const chosen = field.options[input.selectedIndex];
      const barred = field.options.filter((option) => option.reason);
      input.title = [field.tip, barred.length ? `not possible: ${barred.map((option) => `${option.label} (${option.reason})`).join("; ")}` : ""].filter(Boolean).join("\n");
      input.classList.toggle("pt-error", Boolean(chosen?.reason));
    } else if (!entry.typing) input.value = field.value; // menus that come later do not take a number from under its typist
  }

  send(name) {
    const entry = this.inputs.get(name);
    const { input, field } = entry;
    entry.typing = false;
    const value = field.options ? field.options[input.selectedIndex]?.value : Number(input.value);
    if (value === undefined || Number.isNaN(value)) return;
    this.model.send({ type: "set", name, value });
  }

  say() {
    this.hint.textContent = this.model.get("message");
    this.hint.classList.toggle("pt-error", this.model.get("failed"));
  }
}

function render({ model, el }) {
  prepare(el, "controls");
  const view = new ControlsView(model, el);
  const unwatch = watch(model, { fields: () => view.load(), rev: () => view.load(), message: () => view.say(), failed: () => view.say() });
  view.load();
  view.say();
  return unwatch;
}

export default { render };
