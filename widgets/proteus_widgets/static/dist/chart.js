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
function watch(model, handlers) {
  const entries = (
    /** @type {[string, () => void][]} */
    Object.entries(handlers)
  );
  for (const [name, handler] of entries) model.on(`change:${name}`, handler);
  return () => entries.forEach(([name, handler]) => model.off(`change:${name}`, handler));
}

// proteus_widgets/static/common/theme.js
var isDark = () => document.body.dataset.jpThemeLight === "false";
var THEME_LOADED_MS = 300;
function onTheme(callback) {
  const observer = new MutationObserver(() => {
    callback();
    setTimeout(callback, THEME_LOADED_MS);
  });
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name"] });
  return () => observer.disconnect();
}

// proteus_widgets/static/common/probe.js
function probe(view, values) {
  const all = window.proteusProbe ||= {};
  all[view] = { ...all[view], ...values, at: performance.now() };
}

// proteus_widgets/static/panels/chart.js
var LOADING = "__proteusBokeh";
function library(model) {
  const version = model.get("version");
  if (window.Bokeh?.version === version) return Promise.resolve(window.Bokeh);
  const loading = window[LOADING] ||= {};
  return loading[version] ||= new Promise((resolve) => {
    const take = (message, buffers) => {
      if (message.type !== "library") return;
      model.off("msg:custom", take);
      const script = document.createElement("script");
      script.textContent = new TextDecoder().decode(buffers[0]);
      document.head.append(script);
      const bokeh = (
        /** @type {Bokeh} */
        window.Bokeh
      );
      resolve(
        /** @type {Bokeh | undefined} */
        bokeh[version] ?? bokeh
      );
    };
    model.on("msg:custom", take);
    model.send({ type: "library" });
  });
}
function render({ model, el }) {
  prepare(el, "charts");
  const tell = () => {
    if (model.get("dark") === isDark()) return;
    model.set("dark", isDark());
    model.save_changes();
  };
  let views = [];
  let gone = false;
  let last = Promise.resolve();
  const clear = () => {
    views.forEach((view) => view?.remove?.());
    views = [];
  };
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
  const redraw = () => {
    last = last.then(draw);
  };
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
var chart_default = { render };
export {
  chart_default as default
};
