import { h } from "../common/dom.js";
/** @import { Kind } from "../types" */
/** @import { Actions } from "./actions" */

/**
 * Search, zoom buttons, and a legend whose chips single out one kind.
 * @param {Actions} view
 * @param {Kind[]} kinds
 */
export function createToolbar(view, kinds) {
  /**
   * @param {string} text
   * @param {string} label
   * @param {() => void} action
   */
  const button = (text, label, action) => h("button", { type: "button", class: "pt-button", title: label, "aria-label": label, onclick: action }, text);
  const search = h("input", { type: "search", class: "pt-search", placeholder: "Search spans", "aria-label": "Search spans by name" });
  const found = h("span", { class: "pt-found", "aria-live": "polite" });
  search.addEventListener("input", () => view.search(search.value));
  search.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") view.nextMatch(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") {
      search.value = "";
      view.search("");
      view.canvas.focus();
    }
  });
  const critical = button("Critical path", "Show the critical path (C)", () => view.toggleCritical());
  critical.setAttribute("aria-pressed", "false");
  const legend = h("div", { class: "pt-legend", role: "group", "aria-label": "Kinds of spans" });
  const chips = kinds.map((kind, index) => {
    const swatch = h("i", { class: "pt-swatch", "data-hatch": kind.hatch || "none", style: `--kind: ${kind.colour}` });
    const chip = h("button", { type: "button", class: "pt-chip", "aria-pressed": "false", hidden: true, onclick: () => view.filter(index) }, swatch);
    chip.append(kind.label);
    return chip;
  });
  legend.append(...chips);
  const moves = view.viewport;
  const element = h("div", { class: "pt-toolbar" }, legend,
    h("div", { class: "pt-tools" }, found, search, critical,
      button("−", "Zoom out (S)", () => view.move(() => moves.zoom(1.5))),
      button("+", "Zoom in (W)", () => view.move(() => moves.zoom(1 / 1.5))),
      button("Fit", "Show the whole step (0)", () => view.move(() => moves.fit()))));
  return {
    element,
    search,
    /** @param {Set<number>} present kinds */
    show(present) { chips.forEach((chip, kind) => { chip.hidden = !present.has(kind); }); },
    /** @param {number} kind */
    press(kind) { chips.forEach((chip, index) => chip.setAttribute("aria-pressed", String(index === kind))); },
    /**
     * @param {boolean} on
     * @param {boolean} available
     */
    critical(on, available) { critical.setAttribute("aria-pressed", String(on)); critical.hidden = !available; },
    /** @param {string} text */
    found(text) { found.textContent = text; },
  };
}
