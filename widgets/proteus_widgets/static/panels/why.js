import "../base.css";
import "../panels.css";
import { h, prepare, watch } from "../common/dom.js";
import { percent, seconds } from "../common/format.js";
import { probe } from "../common/probe.js";
import { table } from "../common/table.js";
/** @import { Exposed, RenderProps, Rung, WhyTraits } from "../types" */

// Why is it slow: the ladder from ideal to actual as a waterfall, what is exposed, and what would help.

/** @param {Rung[]} steps */
function ladder(steps) {
  const total = Math.max(...steps.map((step) => step.until_s), 1e-12);
  return steps.map((step) => {
    const from = Math.min(step.until_s, step.until_s - step.seconds) / total;
    const row = h("tr", {}, h("th", { scope: "row" }, step.label),
      h("td", { class: "pt-number" }, seconds(step.seconds)),
      h("td", { class: "pt-number" }, percent(step.seconds / total)),
      h("td", { class: "pt-bar-cell" }, h("i", { class: `pt-bar${step.ideal ? " pt-bar-ideal" : ""}`, style: `margin-left: ${from * 100}%; width: ${(Math.abs(step.seconds) / total) * 100}%` })));
    row.title = step.note ?? "";
    return row;
  });
}

/** @param {RenderProps<WhyTraits>} props */
function render({ model, el }) {
  prepare(el, "why");
  /**
   * The part of the model that causes it: selected in all views.
   * @param {Exposed} entry
   */
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

export default { render };
