import { h } from "../common/dom.js";
/** @import { Editor, TreeRow, Value } from "../types" */

/**
 * The editors of the selected rows, beneath the tree: what the node says, and what it may say.
 * @param {(field: string, value: Value) => void} edit
 * @param {() => void} back gives the tree the focus
 */
export function createInspector(edit, back) {
  const title = h("div", { class: "pt-inspector-title" });
  const facts = h("div", { class: "pt-inspector-facts" });
  const fields = h("div", { class: "pt-fields" });
  const element = h("div", { class: "pt-inspector", role: "group", "aria-label": "Selected node", hidden: true }, title, facts, fields);
  element.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") back();
  });

  /** @param {Editor} editor */
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
      /** @param {TreeRow} one */
      const name = (one) => one.path || one.label;
      title.textContent = rows.length > 1 ? `${rows.length} nodes: ${rows.map(name).join(", ")}` : name(row);
      facts.textContent = [row.partition && `partition ${row.partition}`, row.memory && `memory ${row.memory}`].filter(Boolean).join(" · ") || "inherited from the parent";
      if (rows.length > 1) facts.textContent = editors.length ? "an edit applies to all of them" : "they have no field in common";
      fields.replaceChildren(...editors.map((editor) => h("label", { class: "pt-field" }, h("span", { class: "pt-field-name" }, editor.label), choice(editor))));
      if (focused) [...fields.querySelectorAll("select")].find((node) => node.getAttribute("aria-label") === focused)?.focus();
    },
  };
}
