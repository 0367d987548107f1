import "../base.css";
import "../panels.css";
import { h, prepare, watch } from "../common/dom.js";
import { table } from "../common/table.js";
/** @import { CompareTraits, ComparedMetric, RenderProps } from "../types" */

/**
 * The pinned strategy beside the present one: what differs, and what came of it.
 * @param {RenderProps<CompareTraits>} props
 */
function render({ model, el }) {
  prepare(el, "compare");
  const load = () => {
    const comparison = model.get("comparison");
    if (!comparison.rows) {
      el.replaceChildren(h("p", { class: "pt-faint" }, "Pin a result and change the strategy to compare both here."));
      return;
    }
    const { title, rows, changes } = comparison;
    /** @param {ComparedMetric} row */
    const line = (row) => h("tr", {}, h("th", { scope: "row" }, row.label), h("td", { class: "pt-number" }, row.pinned), h("td", { class: "pt-number" }, row.now), h("td", { class: `pt-number ${row.good === null ? "" : row.good ? "pt-good" : "pt-bad"}` }, row.change));
    const list = h("ul", { class: "pt-differences" }, ...changes.map((text) => h("li", {}, text)));
    el.replaceChildren(h("div", { class: "pt-why-body" },
      table(title, ["", "pinned", "now", "change"], rows.map(line)),
      h("div", { class: "pt-why-side" }, h("h4", {}, "What changed"), changes.length ? list : h("p", { class: "pt-faint" }, "Nothing yet."))));
  };
  const unwatch = watch(model, { comparison: load });
  load();
  return unwatch;
}

export default { render };
