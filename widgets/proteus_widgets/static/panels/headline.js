import "../base.css";
import "../panels.css";
import { h, prepare, watch } from "../common/dom.js";
import { probe } from "../common/probe.js";
/** @import { HeadlineTraits, Metric, RenderProps } from "../types" */

// The numbers that matter with their change since the last edit, and the buttons of the session.

/** @param {Metric} metric */
function metric({ label, value, note, change, good, tip }) {
  const item = h("div", { class: "pt-metric", role: "listitem", title: tip }, h("span", { class: "pt-metric-name" }, label), h("span", { class: "pt-metric-value" }, value));
  const sign = good === null ? "" : good ? "pt-good" : "pt-bad";
  item.append(h("span", { class: "pt-change" }, note && change ? `${note} · ` : note, h("span", { class: sign }, change || " ")));
  return item;
}

/** @param {RenderProps<HeadlineTraits>} props */
function render({ model, el }) {
  prepare(el, "headline");
  const list = h("div", { class: "pt-metrics", role: "list", "aria-live": "polite" });
  /**
   * @param {string} name
   * @param {string} text
   * @param {string} label
   */
  const action = (name, text, label) => h("button", { type: "button", class: "pt-button", "data-action": name, "aria-label": label, title: label, onclick: () => model.send({ type: "action", name }) }, text);
  const buttons = {
    undo: action("undo", "↶ Undo", "Undo the last change (ctrl+Z)"),
    redo: action("redo", "↷ Redo", "Redo (ctrl+shift+Z)"),
    pin: action("pin", "Pin", "Pin this result to compare later ones with it"),
    stop: action("stop", "Stop", "Stop the simulation that is running"),
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
    if (can.progress) share.value = can.progress; // without a value it says that something goes on
    else share.removeAttribute("value");
  };
  const unwatch = watch(model, { metrics: load, can: state, facts: words, warning: words, assumptions: words });
  load();
  words();
  state();
  return unwatch;
}

export default { render };
