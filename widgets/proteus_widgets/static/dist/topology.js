// proteus_widgets/static/common/dom.js
var SVG = "http://www.w3.org/2000/svg";
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
var svg = (tag, attributes = {}, ...children) => build(document.createElementNS(SVG, tag), attributes, children);
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

// proteus_widgets/static/common/format.js
function scaled(value, steps, digits) {
  const size = Math.abs(value);
  const [factor, unit] = steps.find(([limit]) => size >= limit) ?? steps[steps.length - 1];
  return `${Number((value / factor).toPrecision(digits))} ${unit}`;
}
var BYTES = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
var BANDWIDTH = [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1, "B/s"]];
var bandwidth = (value) => scaled(value, BANDWIDTH, 4);
var percent = (share) => `${(100 * share).toFixed(share !== 0 && Math.abs(share) < 0.0995 ? 1 : 0)} %`;

// proteus_widgets/static/common/probe.js
function probe(view, values) {
  const all = window.proteusProbe ||= {};
  all[view] = { ...all[view], ...values, at: performance.now() };
}

// proteus_widgets/static/common/tip.js
function createTip(parent) {
  const box = h("div", { class: "pt-tip", hidden: true });
  parent.append(box);
  return {
    /**
     * @param {(string | false | null | undefined)[]} lines
     * @param {number} x
     * @param {number} y
     */
    show(lines, x, y) {
      const shown = (
        /** @type {string[]} */
        lines.filter(Boolean)
      );
      box.replaceChildren(...shown.map((line, i) => {
        const row = h(i ? "div" : "strong");
        row.textContent = line;
        return row;
      }));
      box.hidden = false;
      const room = parent.clientWidth - box.offsetWidth - 4;
      const below = y + 16 + box.offsetHeight <= parent.clientHeight;
      box.style.left = `${Math.max(0, Math.min(x + 14, room))}px`;
      box.style.top = `${below ? y + 16 : Math.max(0, y - box.offsetHeight - 10)}px`;
    },
    hide() {
      box.hidden = true;
    }
  };
}

// proteus_widgets/static/topology/ramp.js
var STOPS = [[0, [155, 178, 200]], [0.3, [86, 180, 233]], [0.6, [0, 114, 178]], [0.8, [230, 159, 0]], [1, [213, 94, 0]]];
function rampColour(use) {
  const at = Math.min(1, Math.max(0, use));
  const next = Math.max(1, STOPS.findIndex(([stop]) => at <= stop));
  const [[low, from], [high, to]] = [STOPS[next - 1], STOPS[next]];
  const part = (at - low) / (high - low);
  return `rgb(${from.map((value, i) => Math.round(value + (to[i] - value) * part)).join()})`;
}

// proteus_widgets/static/topology/topology.js
var TopologyView = class {
  /**
   * @param {Model<TopologyTraits>} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.el = el;
    this.title = h("div", { class: "pt-topology-head" });
    this.stage = h("div", { class: "pt-topology-stage" });
    this.info = h("div", { class: "pt-info", "aria-live": "polite" });
    el.append(this.title, this.stage, this.info);
    this.tip = createTip(el);
    this.current = 0;
    this.picture = null;
    this.lines = [];
    this.cells = [];
    this.gpus = [];
  }
  load() {
    const picture = this.model.get("picture");
    if (!picture.nodes) return;
    this.picture = picture;
    const root = svg("svg", { viewBox: `-6 -6 ${picture.width + 12} ${picture.height + 12}`, role: "group", "aria-label": "Cluster topology" });
    root.style.maxWidth = `${(picture.width + 12) * 1.25}px`;
    const boxes = svg("g");
    const lines = svg("g");
    const nodes = svg("g");
    this.lines = picture.edges.map((edge, index) => this.edge(edge, index, lines));
    this.cells = picture.hosts.flatMap((host) => this.host(host, boxes));
    this.gpus = picture.nodes.map((node) => this.node(node, nodes)).filter((box) => box.device >= 0);
    root.append(boxes, lines, nodes);
    root.addEventListener("keydown", (event) => this.key(event));
    this.stage.replaceChildren(root);
    this.current = Math.min(this.current, this.lines.length - 1);
    this.lines[this.current]?.line.setAttribute("tabindex", "0");
    this.paint();
    this.light();
  }
  /**
   * @param {PictureEdge} edge
   * @param {number} index
   * @param {SVGElement} parent
   */
  edge(edge, index, parent) {
    const line = svg("path", { d: edge.path, class: "pt-link", tabindex: -1, role: "button", "data-kind": edge.kind });
    const target = svg("path", { d: edge.path, class: "pt-link-target", "data-edge": index });
    target.addEventListener("pointermove", (event) => {
      const box = this.el.getBoundingClientRect();
      this.tip.show(this.describe(index), event.clientX - box.left, event.clientY - box.top);
    });
    target.addEventListener("pointerleave", () => this.tip.hide());
    target.addEventListener("click", () => this.select(index));
    line.addEventListener("focus", () => {
      this.current = index;
    });
    parent.append(line, target);
    return { line, edge };
  }
  /**
   * @param {PictureHost} host
   * @param {SVGElement} parent
   */
  host(host, parent) {
    const group = svg("g", { class: host.cells.length ? "pt-host pt-tile" : "pt-host" });
    const label = svg("text", { x: host.x + 8, y: host.y + 13 });
    label.textContent = host.label;
    group.append(svg("rect", { x: host.x, y: host.y, width: host.width, height: host.height, rx: 8 }), label);
    const open = () => this.model.send({ type: "open", host: host.host });
    if (host.cells.length || this.model.get("closable")) {
      group.setAttribute("tabindex", "0");
      group.setAttribute("role", "button");
      group.setAttribute("aria-expanded", String(!host.cells.length));
      group.setAttribute("aria-label", `host ${host.host}`);
      group.addEventListener("click", open);
      group.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        open();
        taken(event);
      });
    }
    const cells = host.cells.map((cell) => {
      const rect = svg("rect", { x: cell.x, y: cell.y, width: 7, height: 7, rx: 1.5, class: "pt-cell" });
      group.append(rect);
      return { rect, device: cell.device };
    });
    parent.append(group);
    return cells;
  }
  /**
   * @param {PictureNode} node
   * @param {SVGElement} parent
   */
  node(node, parent) {
    const group = svg("g", { class: `pt-node pt-node-${node.kind}` });
    const rect = svg("rect", { x: node.x - node.width / 2, y: node.y - node.height / 2, width: node.width, height: node.height, rx: node.kind === "gpu" ? 4 : 9 });
    const label = svg("text", { x: node.x, y: node.y + 4, "text-anchor": "middle" });
    label.textContent = node.label;
    group.append(rect, label);
    group.addEventListener("pointermove", (event) => {
      const box = this.el.getBoundingClientRect();
      const busy = node.device >= 0 ? this.model.get("busy")[node.device] : void 0;
      this.tip.show([node.name, node.device >= 0 && `device ${node.device}`, busy !== void 0 && `computes ${percent(busy)} of the step`], event.clientX - box.left, event.clientY - box.top);
    });
    group.addEventListener("pointerleave", () => this.tip.hide());
    parent.append(group);
    return { rect, device: node.device };
  }
  /** @param {number} index */
  use(index) {
    return this.model.get("use")[index] ?? [];
  }
  /** @param {number} index */
  most(index) {
    return Math.max(0, ...this.use(index));
  }
  /** @param {number} index */
  describe(index) {
    const { edge } = this.lines[index];
    const [a, b] = edge.ends;
    const use = this.use(index);
    const capacity = edge.capacity !== null ? `${edge.kind} · ${bandwidth(edge.capacity)} each way` : `${edge.kind} · never limits`;
    if (edge.links.length > 2) return [`${a} – ${b}`, capacity, `${edge.links.length} links · the busiest ${percent(this.most(index))} used`];
    return [`${a} – ${b}`, capacity, ...edge.links.map((_, i) => `${i ? "←" : "→"} ${percent(use[i] ?? 0)} used`)];
  }
  paint() {
    this.lines.forEach(({ line, edge }, index) => {
      const use = this.most(index);
      line.style.stroke = use > 5e-4 ? rampColour(use) : "";
      line.style.strokeWidth = String(1.2 + 4 * Math.min(1, use));
      line.setAttribute("aria-label", `${edge.ends.join(" to ")}, ${edge.kind}, ${percent(use)} used`);
    });
    const busy = this.model.get("busy");
    for (const { rect, device } of [...this.cells, ...this.gpus]) {
      const share = busy[device];
      rect.style.setProperty("--busy", share === void 0 ? "0%" : `${Math.round(6 + 74 * share)}%`);
    }
    this.title.replaceChildren(h("span", { class: "pt-title" }, "Topology"), h("span", { class: "pt-ramp-label" }, this.model.get("caption")), ramp());
    probe("topology", { edges: this.lines.length });
  }
  light() {
    const lit = new Set(this.model.get("lit"));
    this.lines.forEach(({ line, edge }) => {
      const on = edge.links.some((link) => lit.has(link));
      line.classList.toggle("pt-lit", on);
      line.classList.toggle("pt-dim", lit.size > 0 && !on);
    });
    const info = this.model.get("info");
    this.info.replaceChildren(...info.map((line, i) => {
      const row = h(i ? "div" : "strong");
      row.textContent = line;
      return row;
    }));
    this.info.classList.toggle("pt-open", info.length > 0);
    if (!info.length) this.info.textContent = this.picture?.note ?? "";
    probe("topology", { lit: [...lit] });
  }
  /** @param {number} index */
  select(index) {
    const { edge } = this.lines[index];
    const use = this.use(index);
    const order = [...edge.links].sort((a, b) => (use[edge.links.indexOf(b)] ?? 0) - (use[edge.links.indexOf(a)] ?? 0));
    const at = order.indexOf(this.model.get("selected"));
    this.model.send({ type: "select", what: "link", id: order[at + 1] ?? -1 });
  }
  /** @param {KeyboardEvent} event */
  key(event) {
    if (!elementOf(event).classList.contains("pt-link")) return;
    if (event.key === "ArrowRight" || event.key === "ArrowDown") this.focus(this.current + 1);
    else if (event.key === "ArrowLeft" || event.key === "ArrowUp") this.focus(this.current - 1);
    else if (event.key === "Home") this.focus(0);
    else if (event.key === "End") this.focus(this.lines.length - 1);
    else if (event.key === "Enter" || event.key === " ") this.select(this.current);
    else if (event.key === "Escape") this.model.send({ type: "select", what: "link", id: -1 });
    else return;
    taken(event);
  }
  /** @param {number} index */
  focus(index) {
    const next = this.lines[(index + this.lines.length) % this.lines.length];
    this.lines[this.current].line.setAttribute("tabindex", "-1");
    next.line.setAttribute("tabindex", "0");
    next.line.focus();
  }
};
function ramp() {
  const steps = [0.05, 0.25, 0.5, 0.75, 1].map((use) => h("i", { style: `background: ${rampColour(use)}` }));
  return h("span", { class: "pt-ramp", "aria-hidden": "true" }, "0 %", ...steps, "100 %");
}
function render({ model, el }) {
  prepare(el, "topology");
  const view = new TopologyView(model, el);
  const unwatch = watch(model, {
    picture: () => view.load(),
    use: () => view.paint(),
    busy: () => view.paint(),
    lit: () => view.light(),
    info: () => view.light()
  });
  view.load();
  return unwatch;
}
var topology_default = { render };
export {
  topology_default as default
};
