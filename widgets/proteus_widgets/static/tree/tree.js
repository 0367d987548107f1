import "../base.css";
import "../tree.css";
import { elementOf, h, prepare, taken, uniqueId, watch } from "../common/dom.js";
import { probe } from "../common/probe.js";
import { createInspector } from "./inspector.js";
/** @import { Model, RenderProps, TreeRow, TreeTraits, Value } from "../types" */

// A WAI-ARIA tree with one tab stop. Arrows move, Home and End jump, Space selects, Enter edits,
// typing letters jumps to a label. Ctrl adds a row to the selection, Shift extends it. Python validates every edit and sends the rows back.

class TreeView {
  /**
   * @param {Model<TreeTraits>} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    /** @type {TreeRow[]} */
    this.rows = [];
    /** @type {number[][]} ids of the rows below each row */
    this.children = [];
    /** @type {Set<number>} */
    this.open = new Set();
    this.current = 0;
    this.anchor = -1; // where a range begins: nowhere yet
    this.editNext = false;
    /** @type {Map<number, HTMLLIElement>} by row id */
    this.items = new Map();
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
      if (event.key === "Escape") this.find((this.search.value = ""));
    });
  }

  load() {
    const rows = this.model.get("rows");
    if (!rows.length) return;
    const focused = this.list.contains(document.activeElement);
    /** @param {TreeRow | undefined} row */
    const key = (row) => row && `${row.kind} ${row.path || row.label.split(" · ")[0]}`; // a stage has no path, and its devices change
    const current = key(this.rows[this.current]);
    const wasOpen = new Map(this.rows.map((row) => [key(row), this.open.has(row.id)])); // rows that are new open as at first
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
    const line = h("div", { class: "pt-row", style: `padding-left: ${(level - 1) * 15 + 4}px` },
      h("span", { class: kids.length ? "pt-twist" : "pt-twist pt-leaf", "aria-hidden": "true" }),
      h("i", { class: `pt-dot pt-dot-${row.kind}`, "aria-hidden": "true" }), label);
    if (row.count > 1) line.append(h("span", { class: "pt-count" }, `×${row.count}`));
    const badges = h("span", { class: "pt-badges", id: `${this.stem}-${id}-b` });
    for (const badge of row.badges) badges.append(h("span", { class: "pt-badge" }, badge));
    line.append(badges);
    const share = this.model.get("shares")[id];
    if (share > 0.0005) line.append(h("span", { class: "pt-share", title: `${(share * 100).toFixed(1)} % of the busy time`, style: `--share: ${share}` }, `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`));
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
    const group = /** @type {HTMLElement} */ (li.querySelector(":scope > ul"));
    if (open && !group.childElementCount) {
      this.fill(group, id, Number(li.getAttribute("aria-level")));
      this.mark(false);
    }
  }

  visible() {
    /** @type {TreeRow[]} */
    const out = [];
    /** @param {number} id */
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
    return [this.model.get("selected"), ...(this.model.get("others") ?? [])].filter((id) => id >= 0 && this.rows[id]);
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
    const next = event.key === "ArrowDown" ? shown[at + 1] : event.key === "ArrowUp" ? shown[at - 1] : undefined;
    if (event.shiftKey && next !== undefined) {
      this.extend(next);
      return taken(event);
    }
    switch (event.key) {
      case "ArrowDown": this.focus(shown[at + 1]); break;
      case "ArrowUp": this.focus(shown[at - 1]); break;
      case "Home": this.focus(shown[0]); break;
      case "End": this.focus(shown[shown.length - 1]); break;
      case "ArrowRight":
        if (this.open.has(id)) this.focus(kids[0]);
        else this.toggle(id, true);
        break;
      case "ArrowLeft":
        if (this.open.has(id) && kids.length) this.toggle(id, false);
        else this.focus(this.rows[id].parent);
        break;
      case "*": this.children[this.rows[id].parent]?.forEach((kid) => this.toggle(kid, true)); break;
      case " ": this.select(id); break;
      case "Enter": case "F2": if (this.model.get("selected") === id) this.inspector.focus(); else { this.editNext = true; this.select(id); } break;
      case "Escape": this.send([]); break;
      default: if (!this.typeAhead(event.key, shown, at)) return;
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
    if (found !== undefined) this.focus(found);
    return true;
  }

  /**
   * Show only the rows whose path contains the text, and what leads to them.
   * @param {string} text
   */
  find(text) {
    const query = text.trim().toLowerCase();
    /** @type {Set<number>} */
    const keep = new Set();
    if (query) {
      for (const row of this.rows) {
        if (!`${row.path} ${row.label}`.toLowerCase().includes(query)) continue;
        for (let id = row.id; id >= 0 && !keep.has(id); id = this.rows[id].parent) keep.add(id);
      }
      keep.forEach((id) => this.toggle(id, true));
    }
    this.items.forEach((li, id) => { li.hidden = Boolean(query) && !keep.has(id); });
  }

  mark(move = true) {
    const selected = this.model.get("selected");
    if (move && selected >= 0) {
      /** @type {number[]} */
      const above = [];
      for (let id = this.rows[selected]?.parent ?? -1; id >= 0; id = this.rows[id].parent) above.unshift(id);
      above.forEach((id) => this.toggle(id, true));
    }
    const picked = new Set(this.picked());
    this.items.forEach((li, id) => li.setAttribute("aria-selected", String(picked.has(id))));
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
}

/**
 * The line of an item, without its children.
 * @param {HTMLElement} item
 */
function rowOf(item) {
  return /** @type {HTMLElement} */ (item.querySelector(".pt-row"));
}

/**
 * Id of the row in which an element lies, or -1.
 * @param {HTMLElement} element
 */
function idAt(element) {
  const item = element.closest("[role=treeitem]");
  return item instanceof HTMLElement ? Number(item.dataset.id) : -1;
}

/**
 * scrollIntoView would move the notebook as well.
 * @param {HTMLElement} box
 * @param {HTMLElement} node
 */
function scrollWithin(box, node) {
  const [outer, inner] = [box.getBoundingClientRect(), node.getBoundingClientRect()];
  if (inner.top < outer.top) box.scrollTop -= outer.top - inner.top;
  else if (inner.bottom > outer.bottom) box.scrollTop += inner.bottom - outer.bottom;
}

/** @param {RenderProps<TreeTraits>} props */
function render({ model, el }) {
  prepare(el, "tree");
  const view = new TreeView(model, el);
  const unwatch = watch(model, {
    rows: () => view.load(),
    shares: () => { if (view.rows.length) view.build(); },
    selected: () => view.mark(),
    others: () => view.mark(),
    editors: () => view.editors(),
    message: () => view.say(),
    failed: () => view.say(),
  });
  view.load();
  view.say();
  return unwatch;
}

export default { render };
