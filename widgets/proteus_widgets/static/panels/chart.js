import "../base.css";
import "../panels.css";
import { h, prepare, watch } from "../common/dom.js";
import { isDark, onTheme } from "../common/theme.js";
import { probe } from "../common/probe.js";
/** @import { Bokeh, BokehView, ChartTraits, Column, LiveModel } from "../types" */

// Bokeh figures without a notebook-wide loader: BokehJS comes from the kernel's own package, once per
// page and only when a chart is shown, so it works offline and leaves nothing in the saved notebook.

const LOADING = "__proteusBokeh";

/**
 * @param {LiveModel<ChartTraits>} model
 * @returns {Promise<Bokeh>}
 */
function library(model) {
  const version = model.get("version");
  if (window.Bokeh?.version === version) return Promise.resolve(window.Bokeh);
  const loading = (window[LOADING] ||= {});
  return (loading[version] ||= new Promise((resolve) => {
    /**
     * @param {{ type: string }} message
     * @param {Column[]} buffers
     */
    const take = (message, buffers) => {
      if (message.type !== "library") return;
      model.off("msg:custom", take);
      const script = document.createElement("script");
      script.textContent = new TextDecoder().decode(buffers[0]);
      document.head.append(script);
      const bokeh = /** @type {Bokeh} */ (window.Bokeh);
      resolve(/** @type {Bokeh | undefined} */ (bokeh[version]) ?? bokeh); // beside another version it is one of its fields
    };
    model.on("msg:custom", take);
    model.send({ type: "library" });
  }));
}

/** @param {{ model: LiveModel<ChartTraits>, el: HTMLElement }} props */
function render({ model, el }) {
  prepare(el, "charts");
  const tell = () => {
    if (model.get("dark") === isDark()) return;
    model.set("dark", isDark());
    model.save_changes();
  };
  /** @type {BokehView[]} */
  let views = [];
  let gone = false;
  let last = Promise.resolve();
  const clear = () => {
    views.forEach((view) => view?.remove?.());
    views = [];
  };
  // Bokeh draws over many frames, and only into what is on the page.
  const draw = async () => {
    if (!model.get("items").length) return;
    const bokeh = await library(model);
    while (!el.isConnected && !gone) await new Promise(requestAnimationFrame);
    if (gone) return;
    const items = model.get("items");
    clear();
    const boxes = items.map((item) => h("figure", { class: "pt-chart", role: "img", "aria-label": item.alt }));
    el.replaceChildren(...boxes);
    for (const [i, item] of items.entries()) {
      const target = h("div", { id: `${item.figure.root_id}-${Math.random().toString(36).slice(2)}` });
      boxes[i].append(target);
      if (!target.isConnected) return;
      views.push(...[await bokeh.embed.embed_item(item.figure, target)].flat());
    }
    probe("charts", { count: items.length });
  };
  const redraw = () => { last = last.then(draw); }; // one after the other: none takes the page from under another
  const unwatch = watch(model, { items: redraw });
  const untheme = onTheme(tell);
  tell();
  redraw();
  return () => {
    gone = true;
    unwatch();
    untheme();
    clear();
  };
}

export default { render };
