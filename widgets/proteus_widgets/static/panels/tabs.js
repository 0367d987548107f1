import "../base.css";
import "../panels.css";
import { h, prepare, taken, watch } from "../common/dom.js";
/** @import { RenderProps, TabsTraits } from "../types" */

/**
 * A WAI-ARIA tab list with one tab stop: arrows, Home and End choose.
 * @param {RenderProps<TabsTraits>} props
 */
function render({ model, el }) {
  prepare(el, "tabs");
  const list = h("div", { role: "tablist", class: "pt-tab-list", "aria-label": "More about this result" });
  /** @param {number} index */
  const choose = (index) => {
    model.set("selected", index);
    model.save_changes();
  };
  const tabs = model.get("titles").map((title, index) => h("button", { type: "button", role: "tab", class: "pt-tab", onclick: () => choose(index) }, title));
  list.append(...tabs);
  el.append(list);
  list.addEventListener("keydown", (event) => {
    const at = tabs.findIndex((tab) => tab === event.target);
    const next = new Map([["ArrowRight", at + 1], ["ArrowLeft", at - 1], ["Home", 0], ["End", tabs.length - 1]]).get(event.key);
    if (at < 0 || next === undefined) return;
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

export default { render };
