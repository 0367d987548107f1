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

// proteus_widgets/static/tree/inspector.js
function createInspector(edit, back) {
  const title = h("div", { class: "pt-inspector-title" });
  const facts = h("div", { class: "pt-inspector-facts" });
  const fields = h("div", { class: "pt-fields" });
  const element = h("div", { class: "pt-inspector", role: "group", "aria-label": "Selected node", hidden: true }, title, facts, fields);
  element.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") back();
  });
  function choice(editor) {
    const select = h("select", { "aria-label": editor.label });
    for (const option of editor.options) {
      const item = h("option", { value: String(option.value), disabled: Boolean(option.reason), title: option.reason });
      item.textContent = option.reason ? `${option.label} · ${option.reason}` : option.label;
      item.selected = option.value === editor.value;
      select.append(item);
    }
    select.addEventListener("change", () => edit(editor.field, editor.options[select.selectedIndex].value));
    return select;
  }
  return {
    element,
    focus: () => fields.querySelector("select")?.focus(),
    /**
     * @param {TreeRow[]} rows
     * @param {Editor[]} editors
     */
    show(rows, editors) {
      const row = rows[0];
      const focused = element.contains(document.activeElement) ? document.activeElement?.getAttribute("aria-label") : null;
      element.hidden = !row;
      if (!row) return;
      const name = (one) => one.path || one.label;
      title.textContent = rows.length > 1 ? `${rows.length} nodes: ${rows.map(name).join(", ")}` : name(row);
      facts.textContent = [row.partition && `partition ${row.partition}`, row.memory && `memory ${row.memory}`].filter(Boolean).join(" · ") || "inherited from the parent";
      if (rows.length > 1) facts.textContent = editors.length ? "an edit applies to all of them" : "they have no field in common";
      fields.replaceChildren(...editors.map((editor) => h("label", { class: "pt-field" }, h("span", { class: "pt-field-name" }, editor.label), choice(editor))));
      if (focused) [...fields.querySelectorAll("select")].find((node) => node.getAttribute("aria-label") === focused)?.focus();
    }
  };
}

// proteus_widgets/static/tree/tree.js
var TreeView = class {
  /**
   * @param {Model<TreeTraits>} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.rows = [];
    this.children = [];
    this.open = /* @__PURE__ */ new Set();
    this.current = 0;
    this.anchor = -1;
    this.editNext = false;
    this.items = /* @__PURE__ */ new Map();
    this.stem = uniqueId("row");
    this.list = h("ul", { role: "tree", "aria-label": "Strategy tree", "aria-multiselectable": "true", class: "pt-tree-list" });
    this.search = h("input", { type: "search", class: "pt-search", placeholder: "Find a node", "aria-label": "Find a node in the tree" });
    this.status = h("div", { class: "pt-status", role: "status" });
    this.inspector = createInspector((field, value) => this.edit(field, value), () => this.focus(this.current));
    el.append(h("div", { class: "pt-tree-head" }, h("span", { class: "pt-title" }, "Strategy tree"), this.search), this.list, this.inspector.element, this.status);
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("click", (event) => this.click(event));
    this.search.addEventListener("input", () => this.find(this.search.value));
    this.search.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter" || event.key === "ArrowDown") this.focus(this.visible()[0]?.id ?? 0);
      if (event.key === "Escape") this.find(this.search.value = "");
    });
  }
  load() {
    const rows = this.model.get("rows");
    if (!rows.length) return;
    const focused = this.list.contains(document.activeElement);
    const key = (row) => row && `${row.kind} ${row.path || row.label.split(" · ")[0]}`;
    const current = key(this.rows[this.current]);
    const wasOpen = new Map(this.rows.map((row) => [key(row), this.open.has(row.id)]));
    this.rows = rows;
    this.children = rows.map(() => []);
    rows.forEach((row) => this.children[row.parent]?.push(row.id));
    this.open = new Set(rows.filter((row) => wasOpen.get(key(row)) ?? (row.kind === "model" || row.kind === "stage")).map((row) => row.id));
    this.open.add(0);
    this.current = Math.max(0, rows.findIndex((row) => key(row) === current));
    this.build();
    this.mark();
    if (focused) this.focus(this.current);
    probe("tree", { rows: rows.length });
  }
  build() {
    const top = this.list.scrollTop;
    this.items.clear();
    this.list.replaceChildren(this.item(0, 1, 1, 1));
    this.list.scrollTop = top;
    this.find(this.search.value);
  }
  /**
   * @param {number} id
   * @param {number} level
   * @param {number} size
   * @param {number} position
   */
  item(id, level, size, position) {
    const row = this.rows[id];
    const kids = this.children[id];
    const label = h("span", { class: "pt-label", id: `${this.stem}-${id}` }, row.label);
    const line = h(
      "div",
      { class: "pt-row", style: `padding-left: ${(level - 1) * 15 + 4}px` },
      h("span", { class: kids.length ? "pt-twist" : "pt-twist pt-leaf", "aria-hidden": "true" }),
      h("i", { class: `pt-dot pt-dot-${row.kind}`, "aria-hidden": "true" }),
      label
    );
    if (row.count > 1) line.append(h("span", { class: "pt-count" }, `×${row.count}`));
    const badges = h("span", { class: "pt-badges", id: `${this.stem}-${id}-b` });
    for (const badge of row.badges) badges.append(h("span", { class: "pt-badge" }, badge));
    line.append(badges);
    const share = this.model.get("shares")[id];
    if (share > 5e-4) line.append(h("span", { class: "pt-share", title: `${(share * 100).toFixed(1)} % of the busy time`, style: `--share: ${share}` }, `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`));
    const li = h("li", { role: "treeitem", "data-id": id, "aria-level": level, "aria-setsize": size, "aria-posinset": position, "aria-selected": "false", "aria-labelledby": `${this.stem}-${id} ${this.stem}-${id}-b`, tabindex: id === this.current ? 0 : -1 }, line);
    this.items.set(id, li);
    if (kids.length) {
      const open = this.open.has(id);
      li.setAttribute("aria-expanded", String(open));
      const group = h("ul", { role: "group" });
      if (open) this.fill(group, id, level);
      li.append(group);
    }
    return li;
  }
  /**
   * Children are only built once their parent opens: a tree of thousands of rows costs what it shows.
   * @param {HTMLElement} group
   * @param {number} id
   * @param {number} level
   */
  fill(group, id, level) {
    const kids = this.children[id];
    group.replaceChildren(...kids.map((kid, i) => this.item(kid, level + 1, kids.length, i + 1)));
  }
  /** @param {number} id */
  toggle(id, open = !this.open.has(id)) {
    const li = this.items.get(id);
    if (!li?.hasAttribute("aria-expanded")) return;
    if (open) this.open.add(id);
    else this.open.delete(id);
    li.setAttribute("aria-expanded", String(open));
    const group = (
      /** @type {HTMLElement} */
      li.querySelector(":scope > ul")
    );
    if (open && !group.childElementCount) {
      this.fill(group, id, Number(li.getAttribute("aria-level")));
      this.mark(false);
    }
  }
  visible() {
    const out = [];
    const walk = (id) => {
      const li = this.items.get(id);
      if (!li || li.hidden) return;
      out.push(this.rows[id]);
      if (this.open.has(id)) this.children[id].forEach(walk);
    };
    walk(0);
    return out;
  }
  /** @param {number} id */
  focus(id) {
    const li = this.items.get(id);
    if (!li) return;
    this.items.get(this.current)?.setAttribute("tabindex", "-1");
    this.current = id;
    li.setAttribute("tabindex", "0");
    li.focus({ preventScroll: true });
    rowOf(li).scrollIntoView({ block: "nearest" });
  }
  // The selected rows: what was picked last comes first, its editors are shown.
  picked() {
    return [this.model.get("selected"), ...this.model.get("others") ?? []].filter((id) => id >= 0 && this.rows[id]);
  }
  /** @param {number} id */
  select(id) {
    this.focus(id);
    this.anchor = id;
    const alone = this.picked().length === 1 && this.picked()[0] === id;
    this.send(alone ? [] : [id]);
  }
  /** @param {number} id */
  add(id) {
    this.focus(id);
    this.anchor = id;
    const picked = this.picked();
    this.send(picked.includes(id) ? picked.filter((other) => other !== id) : [id, ...picked]);
  }
  /** @param {number} id */
  extend(id) {
    const shown = this.visible().map((row) => row.id);
    this.anchor = shown.includes(this.anchor) ? this.anchor : this.current;
    const [from, to] = [shown.indexOf(this.anchor), shown.indexOf(id)].sort((a, b) => a - b);
    this.focus(id);
    this.send([id, ...shown.slice(from, to + 1).filter((other) => other !== id)]);
  }
  /** @param {number[]} picked */
  send([id = -1, ...others]) {
    this.model.send({ type: "select", what: "node", id, others });
  }
  /**
   * @param {string} field
   * @param {Value} value
   */
  edit(field, value) {
    const paths = this.picked().map((id) => this.rows[id].path);
    if (paths.length) this.model.send({ type: "edit", paths, field, value });
  }
  /** @param {MouseEvent} event */
  click(event) {
    const target = elementOf(event);
    const id = idAt(target);
    if (id < 0) return;
    if (target.classList.contains("pt-twist")) this.toggle(id);
    else if (event.shiftKey) this.extend(id);
    else if (event.ctrlKey || event.metaKey) this.add(id);
    else this.select(id);
  }
  /** @param {KeyboardEvent} event */
  key(event) {
    const id = idAt(elementOf(event));
    if (id < 0 || event.altKey) return;
    if (event.ctrlKey || event.metaKey) {
      if (event.key !== " ") return;
      this.add(id);
      return taken(event);
    }
    const shown = this.visible().map((row) => row.id);
    const at = shown.indexOf(id);
    const kids = this.children[id];
    const next = event.key === "ArrowDown" ? shown[at + 1] : event.key === "ArrowUp" ? shown[at - 1] : void 0;
    if (event.shiftKey && next !== void 0) {
      this.extend(next);
      return taken(event);
    }
    switch (event.key) {
      case "ArrowDown":
        this.focus(shown[at + 1]);
        break;
      case "ArrowUp":
        this.focus(shown[at - 1]);
        break;
      case "Home":
        this.focus(shown[0]);
        break;
      case "End":
        this.focus(shown[shown.length - 1]);
        break;
      case "ArrowRight":
        if (this.open.has(id)) this.focus(kids[0]);
        else this.toggle(id, true);
        break;
      case "ArrowLeft":
        if (this.open.has(id) && kids.length) this.toggle(id, false);
        else this.focus(this.rows[id].parent);
        break;
      case "*":
        this.children[this.rows[id].parent]?.forEach((kid) => this.toggle(kid, true));
        break;
      case " ":
        this.select(id);
        break;
      case "Enter":
      case "F2":
        if (this.model.get("selected") === id) this.inspector.focus();
        else {
          this.editNext = true;
          this.select(id);
        }
        break;
      case "Escape":
        this.send([]);
        break;
      default:
        if (!this.typeAhead(event.key, shown, at)) return;
    }
    taken(event);
  }
  /**
   * @param {string} letter
   * @param {number[]} shown ids
   * @param {number} at
   */
  typeAhead(letter, shown, at) {
    if (letter.length !== 1 || !/\S/.test(letter)) return false;
    const order = [...shown.slice(at + 1), ...shown.slice(0, at + 1)];
    const found = order.find((id) => this.rows[id].label.toLowerCase().startsWith(letter.toLowerCase()));
    if (found !== void 0) this.focus(found);
    return true;
  }
  /**
   * Show only the rows whose path contains the text, and what leads to them.
   * @param {string} text
   */
  find(text) {
    const query = text.trim().toLowerCase();
    const keep = /* @__PURE__ */ new Set();
    if (query) {
      for (const row of this.rows) {
        if (!`${row.path} ${row.label}`.toLowerCase().includes(query)) continue;
        for (let id = row.id; id >= 0 && !keep.has(id); id = this.rows[id].parent) keep.add(id);
      }
      keep.forEach((id) => this.toggle(id, true));
    }
    this.items.forEach((li, id) => {
      li.hidden = Boolean(query) && !keep.has(id);
    });
  }
  mark(move = true) {
    const selected = this.model.get("selected");
    if (move && selected >= 0) {
      const above = [];
      for (let id = this.rows[selected]?.parent ?? -1; id >= 0; id = this.rows[id].parent) above.unshift(id);
      above.forEach((id) => this.toggle(id, true));
    }
    const picked = new Set(this.picked());
    this.items.forEach((li2, id) => li2.setAttribute("aria-selected", String(picked.has(id))));
    const li = this.items.get(selected);
    if (li && move) scrollWithin(this.list, rowOf(li));
    this.inspect();
    probe("tree", { selected, picked: [...picked] });
  }
  inspect() {
    if (this.rows.length) this.inspector.show(this.picked().map((id) => this.rows[id]), this.model.get("editors"));
  }
  editors() {
    const selected = this.model.get("selected");
    this.inspect();
    if (this.editNext && selected === this.current) this.inspector.focus();
    this.editNext = false;
  }
  say() {
    this.status.textContent = this.model.get("message");
    this.status.classList.toggle("pt-error", this.model.get("failed"));
  }
};
function rowOf(item) {
  return (
    /** @type {HTMLElement} */
    item.querySelector(".pt-row")
  );
}
function idAt(element) {
  const item = element.closest("[role=treeitem]");
  return item instanceof HTMLElement ? Number(item.dataset.id) : -1;
}
function scrollWithin(box, node) {
  const [outer, inner] = [box.getBoundingClientRect(), node.getBoundingClientRect()];
  if (inner.top < outer.top) box.scrollTop -= outer.top - inner.top;
  else if (inner.bottom > outer.bottom) box.scrollTop += inner.bottom - outer.bottom;
}
function render({ model, el }) {
  prepare(el, "tree");
  const view = new TreeView(model, el);
  const unwatch = watch(model, {
    rows: () => view.load(),
    shares: () => {
      if (view.rows.length) view.build();
    },
    selected: () => view.mark(),
    others: () => view.mark(),
    editors: () => view.editors(),
    message: () => view.say(),
    failed: () => view.say()
  });
  view.load();
  view.say();
  return unwatch;
}
var tree_default = { render };
export {
  tree_default as default
};
