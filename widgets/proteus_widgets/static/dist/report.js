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
var uniqueIds = 0;
var uniqueId = (stem) => `pt-${stem}-${uniqueIds++}`;
function watch(model, handlers) {
  const entries = (
    /** @type {[string, () => void][]} */
    Object.entries(handlers)
  );
  for (const [name, handler] of entries) model.on(`change:${name}`, handler);
  return () => entries.forEach(([name, handler]) => model.off(`change:${name}`, handler));
}

// proteus_widgets/static/common/columns.js
function column(view, Type) {
  const { buffer, byteOffset, byteLength } = view;
  const size = Type.BYTES_PER_ELEMENT;
  if (byteOffset % size === 0) return new Type(buffer, byteOffset, byteLength / size);
  return new Type(buffer.slice(byteOffset, byteOffset + byteLength));
}
var columnOrNull = (view, Type) => view ? column(view, Type) : null;
function lowerBound(values, low, high, value) {
  while (low < high) {
    const middle = low + high >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// proteus_widgets/static/common/format.js
function scaled(value, steps, digits) {
  const size = Math.abs(value);
  const [factor, unit] = steps.find(([limit]) => size >= limit) ?? steps[steps.length - 1];
  return `${Number((value / factor).toPrecision(digits))} ${unit}`;
}
var SECONDS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
var BYTES = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
var BANDWIDTH = [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1, "B/s"]];
var seconds = (value, digits = 4) => value === 0 ? "0 s" : scaled(value, SECONDS, digits);
var bytes = (value, digits = 4) => scaled(value, BYTES, digits);
var bandwidth = (value) => scaled(value, BANDWIDTH, 4);
var percent = (share) => `${(100 * share).toFixed(share !== 0 && Math.abs(share) < 0.0995 ? 1 : 0)} %`;
function ranges(numbers, most = 12) {
  const runs = [];
  for (const number of numbers) {
    const last = runs.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else runs.push([number, number]);
  }
  const words = runs.slice(0, most).map(([first, last]) => first === last ? `${first}` : `${first}-${last}`);
  return words.join(", ") + (runs.length > most ? ", …" : "");
}

// proteus_widgets/static/common/theme.js
var FALLBACK = {
  "--jp-layout-color1": "#ffffff",
  "--jp-layout-color2": "#f3f4f6",
  "--jp-ui-font-color1": "#1f2328",
  "--jp-ui-font-color2": "#59636e",
  "--jp-border-color2": "#d8dee4",
  "--jp-brand-color1": "#0072b2"
};
function themeColours(el) {
  const style = getComputedStyle(el);
  const read = (name) => style.getPropertyValue(name).trim() || FALLBACK[name];
  return {
    background: read("--jp-layout-color1"),
    band: read("--jp-layout-color2"),
    text: read("--jp-ui-font-color1"),
    faint: read("--jp-ui-font-color2"),
    line: read("--jp-border-color2"),
    brand: read("--jp-brand-color1"),
    family: style.fontFamily || "sans-serif"
  };
}
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

// proteus_widgets/static/timeline/boxes.js
var LABEL_HEIGHT = 14;
var LABEL_WIDTH = 14;
var Boxes = class {
  /** @param {number} numKinds */
  constructor(numKinds) {
    this.bright = Array.from({ length: numKinds }, () => []);
    this.dim = Array.from({ length: numKinds }, () => []);
    this.critical = [];
    this.labels = [];
    this.drawn = 0;
    this.share = new Float64Array(numKinds);
  }
  clear() {
    for (const list of [...this.bright, ...this.dim]) list.length = 0;
    this.critical.length = this.labels.length = this.drawn = 0;
  }
  /**
   * @param {number} kind
   * @param {boolean} lit
   * @param {number} x
   * @param {number} y
   * @param {number} width
   * @param {number} height
   */
  put(kind, lit, x, y, width, height) {
    (lit ? this.bright : this.dim)[kind].push(x, y, width, height);
    this.drawn++;
  }
  /**
   * @param {Frame} frame
   * @param {LaneRow} row
   * @param {Viewport} viewport
   * @param {Uint8Array | null} emphasis
   * @param {boolean} showCritical
   */
  addLane(frame, row, viewport, emphasis, showCritical) {
    const { start: start2, duration, kind, critical } = frame;
    const { left, scale, from, to } = viewport;
    const y = viewport.axis + row.y - viewport.top;
    const height = row.height;
    const high = frame.pointer[row.lane + 1];
    const share = this.share;
    let pixel = -1;
    let pixelLit = false;
    const flush = () => {
      if (pixel < 0) return;
      let most = 0;
      for (let k = 1; k < share.length; k++) if (share[k] > share[most]) most = k;
      share.fill(0);
      this.put(most, pixelLit, pixel, y, 1, height);
      pixel = -1;
      pixelLit = false;
    };
    for (let i = frame.firstVisible(row.lane, from); i < high && start2[i] < to; i++) {
      const x = left + (start2[i] - from) * scale;
      const width = duration[i] * scale;
      const lit = emphasis === null || emphasis[i] === 1;
      if (width < 1) {
        const at = Math.max(left, x | 0);
        if (at !== pixel) {
          flush();
          pixel = at;
        }
        share[kind[i]] += duration[i];
        pixelLit ||= lit;
        continue;
      }
      flush();
      const a = Math.max(x, left);
      const w = Math.max(Math.min(x + width, viewport.width) - a - (width > 4 ? 0.7 : 0), 0.8);
      this.put(kind[i], lit, a, y, w, height);
      if (showCritical && critical?.[i]) this.critical.push(a, y, w, height);
    }
    flush();
    if (height >= LABEL_HEIGHT) this.addLabels(frame, row, viewport, y + height / 2);
  }
  /**
   * One label for each run of neighbours of the same micro-batch, forward or backward.
   * @param {Frame} frame
   * @param {LaneRow} row
   * @param {Viewport} viewport
   * @param {number} y
   */
  addLabels(frame, row, viewport, y) {
    const { start: start2, duration, kind } = frame;
    const { left, scale, from, to } = viewport;
    const high = frame.pointer[row.lane + 1];
    const near = 3 / scale;
    for (let i = frame.firstVisible(row.lane, from); i < high && start2[i] < to; ) {
      const first = i;
      let end = start2[i] + duration[i];
      for (i++; i < high && kind[i] === 0 === (kind[first] === 0) && frame.microOf(i) === frame.microOf(first) && start2[i] - end < near && start2[i] < to; i++) end = start2[i] + duration[i];
      const x = Math.max(left, left + (start2[first] - from) * scale);
      const width = Math.min(left + (end - from) * scale, viewport.width) - x;
      if (width >= LABEL_WIDTH) this.labels.push(first, i - first, x, y, width);
    }
  }
};

// proteus_widgets/static/timeline/spans.js
var Frame = class {
  /** @param {FrameData} data */
  constructor(data) {
    this.rev = data.rev;
    this.show = data.show;
    this.total = data.total;
    this.lod = data.lod;
    this.makespan = data.makespan_s;
    this.lanes = data.lanes;
    this.names = data.names;
    this.start = column(data.start, Float64Array);
    this.duration = column(data.duration, Float32Array);
    this.kind = column(data.kind, Uint8Array);
    this.node = column(data.node, Int32Array);
    this.name = column(data.name, Int32Array);
    this.micro = column(data.micro, Int32Array);
    this.pattern = column(data.pattern, Int32Array);
    this.critical = columnOrNull(data.critical, Uint8Array);
    this.id = columnOrNull(data.id, Int32Array);
    this.pointer = column(data.lane_ptr, Uint32Array);
  }
  get length() {
    return this.start.length;
  }
  /** @param {number} i */
  end(i) {
    return this.start[i] + this.duration[i];
  }
  /** @param {number} i */
  idOf(i) {
    return this.id ? this.id[i] : i;
  }
  /** @param {number} i */
  microOf(i) {
    return this.micro[i];
  }
  /**
   * Ids rise from row to row, so the row of an id is found by bisection; -1 when it was not sent.
   * @param {number} id
   */
  rowOf(id) {
    if (id < 0) return -1;
    if (!this.id) return id < this.length ? id : -1;
    const row = lowerBound(this.id, 0, this.id.length, id);
    return this.id[row] === id ? row : -1;
  }
  /** @param {number} i */
  laneOf(i) {
    let low = 0;
    let high = this.pointer.length - 1;
    while (low < high - 1) {
      const middle = low + high >> 1;
      if (this.pointer[middle] <= i) low = middle;
      else high = middle;
    }
    return low;
  }
  /**
   * The first span of a lane that is still running at `time`.
   * @param {number} lane
   * @param {number} time
   */
  firstVisible(lane, time) {
    const low = this.pointer[lane];
    const i = lowerBound(this.start, low, this.pointer[lane + 1], time);
    return i > low && this.end(i - 1) > time ? i - 1 : i;
  }
  /**
   * The span at `time`, or the nearest one within `slack` seconds.
   * @param {number} lane
   * @param {number} time
   * @param {number} slack
   */
  at(lane, time, slack) {
    const low = this.pointer[lane];
    const high = this.pointer[lane + 1];
    const i = lowerBound(this.start, low, high, time);
    const before = i > low ? time - this.end(i - 1) : Infinity;
    if (before <= 0) return i - 1;
    const after = i < high ? this.start[i] - time : Infinity;
    if (Math.min(before, after) > slack) return -1;
    return before <= after ? i - 1 : i;
  }
  /**
   * Which spans stand out: null when all do.
   * @param {Emphasis} emphasis
   */
  emphasis({ nodes, patterns, names, kinds }) {
    if (!nodes && !patterns && !names && !kinds) return null;
    const out = new Uint8Array(this.length);
    for (let i = 0; i < out.length; i++) {
      out[i] = names?.[this.name[i]] || kinds?.[this.kind[i]] || nodes?.[this.node[i]] || this.pattern[i] >= 0 && patterns?.[this.pattern[i]] ? 1 : 0;
    }
    return out;
  }
};

// proteus_widgets/static/timeline/viewport.js
var Viewport = class {
  constructor() {
    this.from = 0;
    this.to = 0;
    this.top = 0;
    this.extent = 0;
    this.left = 172;
    this.axis = 22;
    this.width = 0;
    this.height = 0;
  }
  get scale() {
    return (this.width - this.left) / (this.to - this.from);
  }
  /** @param {number} time */
  x(time) {
    return this.left + (time - this.from) * this.scale;
  }
  /** @param {number} x */
  time(x) {
    return this.from + (x - this.left) / this.scale;
  }
  get isFit() {
    return this.from <= 0 && this.to >= this.extent * (1 - 1e-9);
  }
  /**
   * A user who sees the whole step goes on seeing it; one who zoomed in keeps the place.
   * @param {number} extent
   */
  setExtent(extent) {
    const fit = this.to <= this.from || this.isFit;
    this.extent = extent;
    if (fit || this.from >= extent) this.fit();
    else this.set(this.from, this.to);
  }
  fit() {
    this.from = 0;
    this.to = this.extent;
  }
  /**
   * @param {number} from
   * @param {number} to
   */
  set(from, to) {
    const least = this.extent * 1e-7;
    const span = Math.min(Math.max(to - from, least), this.extent);
    this.from = Math.min(Math.max(from, 0), this.extent - span);
    this.to = this.from + span;
  }
  /** @param {number} factor */
  zoom(factor, x = (this.left + this.width) / 2) {
    const at = this.time(x);
    this.set(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }
  /** @param {number} share */
  pan(share) {
    const by = (this.to - this.from) * share;
    this.set(this.from + by, this.to + by);
  }
  /**
   * @param {number} by
   * @param {number} contentHeight
   */
  scroll(by, contentHeight) {
    const before = this.top;
    this.top = Math.max(0, Math.min(this.top + by, contentHeight - (this.height - this.axis)));
    return this.top !== before;
  }
  /**
   * Bring a row and a time interval into view, moving no more than needed.
   * @param {Extent | undefined} row
   * @param {number} start
   * @param {number} end
   */
  reveal(row, start2, end) {
    if (row) {
      if (row.y < this.top) this.top = row.y - 4;
      else if (row.y + row.height > this.top + this.height - this.axis) this.top = row.y + row.height - (this.height - this.axis) + 4;
      this.top = Math.max(0, this.top);
    }
    if (end < this.from || start2 > this.to) {
      const half = (this.to - this.from) / 2;
      this.set((start2 + end) / 2 - half, (start2 + end) / 2 + half);
    }
  }
};

// proteus_widgets/static/timeline/rows.js
var COMPUTE = 18;
var MEMORY = 26;
var SLIM = 9;
var GAP = 8;
function layoutRows(lanes, memoryDevices, members, unfolded) {
  const rows = [];
  let y = 4;
  for (const group of groups(lanes)) {
    const { device, multiplicity } = group[0];
    const ranks = unfolded.has(device) && members[device] || [device];
    for (const rank of ranks) {
      if (rows.length) y += GAP;
      const common = { device, rank, copy: rank !== device, label: `GPU ${rank}`, multiplicity, unfolded: ranks.length > 1 };
      for (const [i, { stream, index }] of group.entries()) {
        const height = stream === "compute" ? COMPUTE : SLIM;
        rows.push({ ...common, type: "lane", lane: index, stream, first: i === 0, y, height });
        y += height + 2;
      }
      if (memoryDevices.has(device)) {
        rows.push({ ...common, type: "memory", stream: "memory", first: false, y, height: MEMORY });
        y += MEMORY + 2;
      }
    }
  }
  return { rows, height: y + 4 };
}
function groups(lanes) {
  const found = [];
  lanes.forEach((lane, index) => {
    if (!index || lanes[index - 1].device !== lane.device) found.push([]);
    found[found.length - 1].push({ ...lane, index });
  });
  return found;
}
function visibleRows(rows, top, bottom) {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = low + high >> 1;
    if (rows[middle].y + rows[middle].height < top) low = middle + 1;
    else high = middle;
  }
  let end = low;
  while (end < rows.length && rows[end].y <= bottom) end++;
  return rows.slice(low, end);
}
function rowAt(rows, y) {
  return visibleRows(rows, y, y).find((row) => y >= row.y - 1 && y <= row.y + row.height + 1) ?? null;
}

// proteus_widgets/static/timeline/toolbar.js
function createToolbar(view, kinds) {
  const button = (text2, label, action) => h("button", { type: "button", class: "pt-button", title: label, "aria-label": label, onclick: action }, text2);
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
  const element2 = h(
    "div",
    { class: "pt-toolbar" },
    legend,
    h(
      "div",
      { class: "pt-tools" },
      found,
      search,
      critical,
      button("−", "Zoom out (S)", () => view.move(() => moves.zoom(1.5))),
      button("+", "Zoom in (W)", () => view.move(() => moves.zoom(1 / 1.5))),
      button("Fit", "Show the whole step (0)", () => view.move(() => moves.fit()))
    )
  );
  return {
    element: element2,
    search,
    /** @param {Set<number>} present kinds */
    show(present) {
      chips.forEach((chip, kind) => {
        chip.hidden = !present.has(kind);
      });
    },
    /** @param {number} kind */
    press(kind) {
      chips.forEach((chip, index) => chip.setAttribute("aria-pressed", String(index === kind)));
    },
    /**
     * @param {boolean} on
     * @param {boolean} available
     */
    critical(on, available) {
      critical.setAttribute("aria-pressed", String(on));
      critical.hidden = !available;
    },
    /** @param {string} text */
    found(text2) {
      found.textContent = text2;
    }
  };
}

// proteus_widgets/static/timeline/input.js
function listen(canvas, view) {
  const { viewport } = view;
  let drag = null;
  const keys = {
    w: () => view.move(() => viewport.zoom(1 / 1.3)),
    s: () => view.move(() => viewport.zoom(1.3)),
    a: () => view.move(() => viewport.pan(-0.15)),
    d: () => view.move(() => viewport.pan(0.15)),
    f: () => view.focusSelected(),
    0: () => view.move(() => viewport.fit()),
    home: () => view.move(() => viewport.fit()),
    m: () => view.measureSelected(),
    c: () => view.toggleCritical(),
    u: () => view.unfoldSelected(),
    t: () => view.hold(),
    n: () => view.nextMatch(1),
    p: () => view.nextMatch(-1),
    "/": () => view.focusSearch(),
    arrowright: () => view.step(1),
    arrowleft: () => view.step(-1),
    arrowdown: () => view.stepLane(1),
    arrowup: () => view.stepLane(-1),
    escape: () => view.clear()
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = keys[event.key.toLowerCase()];
    if (!action) return;
    action();
    taken(event);
  });
  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) view.move(() => viewport.zoom(event.deltaY > 0 ? 1.18 : 1 / 1.18, event.offsetX));
    else if (event.shiftKey) view.move(() => viewport.pan((event.deltaY || event.deltaX) / 2e3));
    else if (!view.scroll(event.deltaY)) return;
    event.preventDefault();
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.focus();
    drag = { x: event.offsetX, y: event.offsetY, from: viewport.from, to: viewport.to, measure: event.shiftKey, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return view.hover(event.offsetX, event.offsetY);
    drag.moved ||= Math.abs(event.offsetX - drag.x) > 3 || Math.abs(event.offsetY - drag.y) > 3;
    if (!drag.moved) return;
    if (drag.measure) view.measure(viewport.time(drag.x), viewport.time(event.offsetX));
    else {
      const by = (event.offsetX - drag.x) / (viewport.width - viewport.left) * (drag.to - drag.from);
      const [from, to] = [drag.from - by, drag.to - by];
      view.move(() => viewport.set(from, to));
      view.scroll(drag.y - event.offsetY);
      drag.y = event.offsetY;
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) view.pick(event.offsetX, event.offsetY);
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => view.hover(-1, -1));
  canvas.addEventListener("dblclick", () => view.focusSelected());
}

// proteus_widgets/static/timeline/paint.js
function contextOf(canvas) {
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser draws no canvas");
  return context;
}
var HATCHES = { "/": [[0, 6, 6, 0], [-1, 1, 1, -1], [5, 7, 7, 5]], "\\": [[0, 0, 6, 6], [-1, 5, 1, 7], [5, -1, 7, 1]], "-": [[0, 3, 6, 3]], "|": [[3, 0, 3, 6]] };
function hatch(ctx, sign, colour, ratio) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6 * ratio;
  const pen = contextOf(tile);
  pen.scale(ratio, ratio);
  pen.strokeStyle = colour;
  pen.lineWidth = 1.1;
  pen.beginPath();
  for (const [x0, y0, x1, y1] of sign === "x" ? [...HATCHES["/"], ...HATCHES["\\"]] : HATCHES[sign]) {
    pen.moveTo(x0, y0);
    pen.lineTo(x1, y1);
  }
  pen.stroke();
  const pattern = ctx.createPattern(tile, "repeat");
  pattern?.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}
function fillBoxes(ctx, lists, colours, alpha) {
  ctx.globalAlpha = alpha;
  lists.forEach((list, kind) => {
    ctx.fillStyle = colours[kind];
    for (let i = 0; i < list.length; i += 4) ctx.fillRect(list[i], list[i + 1], list[i + 2], list[i + 3]);
  });
  ctx.globalAlpha = 1;
}
function fillHatches(ctx, lists, hatches) {
  lists.forEach((list, kind) => {
    const pattern = hatches[kind];
    if (!pattern) return;
    ctx.beginPath();
    for (let i = 0; i < list.length; i += 4) if (list[i + 2] >= 5) ctx.rect(list[i], list[i + 1], list[i + 2], list[i + 3]);
    ctx.fillStyle = pattern;
    ctx.fill();
  });
}
function strokeBoxes(ctx, list, colour) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1.5;
  for (let i = 0; i < list.length; i += 4) ctx.strokeRect(list[i] + 0.75, list[i + 1] + 0.75, Math.max(list[i + 2] - 1.5, 0.5), list[i + 3] - 1.5);
}
function writeLabels(ctx, frame, labels, kinds, emphasis, family) {
  ctx.textBaseline = "middle";
  ctx.textAlign = "center";
  ctx.font = `10px ${family}`;
  for (let q = 0; q < labels.length; q += 5) {
    const [i, count, x, y, width] = [labels[q], labels[q + 1], labels[q + 2], labels[q + 3], labels[q + 4]];
    if (emphasis && !emphasis[i]) continue;
    const micro = frame.microOf(i);
    const name = count === 1 ? frame.names[frame.name[i]] : "";
    const both = micro >= 0 ? `${micro} ${name}` : name;
    const text2 = name && both.length * 5.8 + 6 <= width ? both : micro >= 0 && String(micro).length * 6 + 4 <= width ? String(micro) : "";
    if (!text2) continue;
    ctx.fillStyle = kinds[frame.kind[i]].ink;
    ctx.fillText(text2, x + width / 2, y + 0.5);
  }
}
function ticks(from, to, pixels) {
  const rough = (to - from) / pixels * 110;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
  const out = [];
  for (let n = Math.ceil(from / step); n * step <= to; n++) out.push(n * step);
  return out;
}
function paintAxis(ctx, viewport, theme, times) {
  const { width, axis } = viewport;
  ctx.fillStyle = theme.background;
  ctx.fillRect(0, 0, width, axis);
  ctx.fillStyle = theme.faint;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.font = `11px ${theme.family}`;
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 1;
  ctx.beginPath();
  for (const time of times) {
    const x = Math.round(viewport.x(time)) + 0.5;
    ctx.moveTo(x, axis - 5);
    ctx.lineTo(x, axis);
    const text2 = seconds(time, 6);
    if (x + 4 + text2.length * 6.2 < width) ctx.fillText(text2, x + 4, axis / 2);
  }
  ctx.moveTo(0, axis + 0.5);
  ctx.lineTo(width, axis + 0.5);
  ctx.stroke();
}
function paintGrid(ctx, viewport, theme, times) {
  ctx.strokeStyle = theme.line;
  ctx.globalAlpha = 0.6;
  ctx.beginPath();
  for (const time of times) {
    const x = Math.round(viewport.x(time)) + 0.5;
    ctx.moveTo(x, viewport.axis);
    ctx.lineTo(x, viewport.height);
  }
  ctx.stroke();
  ctx.globalAlpha = 1;
}
function clipped(ctx, text2, width) {
  if (ctx.measureText(text2).width <= width) return text2;
  let end = text2.length;
  while (end > 1 && ctx.measureText(`${text2.slice(0, end)}…`).width > width) end--;
  return `${text2.slice(0, end)}…`;
}
function paintGutter(ctx, rows, viewport, theme) {
  const { left, axis, top, height } = viewport;
  ctx.fillStyle = theme.background;
  ctx.fillRect(0, axis + 1, left - 6, height);
  ctx.textBaseline = "middle";
  for (const row of rows) {
    const y = axis + row.y - top;
    if (row.first) {
      ctx.font = `600 11px ${theme.family}`;
      ctx.fillStyle = theme.text;
      ctx.textAlign = "left";
      const copies = row.multiplicity < 2 ? "" : row.unfolded ? row.copy ? "" : " ▾" : ` ×${row.multiplicity} ▸`;
      ctx.fillText(clipped(ctx, row.label + copies, left - 72), 6, y + row.height / 2 + 0.5);
    }
    ctx.font = `${row.height >= 14 ? 10 : 9}px ${theme.family}`;
    ctx.fillStyle = theme.faint;
    ctx.textAlign = "right";
    ctx.fillText(clipped(ctx, row.stream, row.first ? 60 : left - 20), left - 12, y + row.height / 2 + 0.5);
  }
}
function paintMemory(ctx, row, track, viewport, theme, colour) {
  const { time, live, capacity } = track;
  if (!time.length) return;
  const base = viewport.axis + row.y - viewport.top + row.height;
  const full = Math.max(capacity, track.peak);
  const level = (value) => base - value / full * (row.height - 2);
  ctx.fillStyle = theme.band;
  ctx.fillRect(viewport.left, base - row.height, viewport.width - viewport.left, row.height);
  ctx.beginPath();
  ctx.moveTo(viewport.left, base);
  let highest = 0;
  let pixel = -1;
  for (let i = 0; i < time.length; i++) {
    const next = i + 1 < time.length ? time[i + 1] : viewport.extent;
    if (next < viewport.from || time[i] > viewport.to) continue;
    const x0 = Math.max(viewport.left, viewport.x(time[i]));
    const x1 = Math.min(viewport.width, viewport.x(next));
    highest = (x0 | 0) === pixel ? Math.max(highest, live[i]) : live[i];
    pixel = x0 | 0;
    ctx.lineTo(x0, level(highest));
    ctx.lineTo(x1, level(live[i]));
  }
  ctx.lineTo(viewport.width, base);
  ctx.closePath();
  ctx.globalAlpha = 0.45;
  ctx.fillStyle = colour;
  ctx.fill();
  ctx.globalAlpha = 1;
  if (capacity < full) {
    ctx.strokeStyle = theme.text;
    ctx.setLineDash([4, 3]);
    ctx.beginPath();
    ctx.moveTo(viewport.left, Math.round(level(capacity)) + 0.5);
    ctx.lineTo(viewport.width, Math.round(level(capacity)) + 0.5);
    ctx.stroke();
    ctx.setLineDash([]);
  }
  const text2 = `peak ${bytes(track.peak, 3)}`;
  ctx.font = `10px ${theme.family}`;
  const width = ctx.measureText(text2).width + 8;
  ctx.fillStyle = theme.background;
  ctx.globalAlpha = 0.8;
  ctx.fillRect(viewport.width - width - 2, base - 16, width, 14);
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.text;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillText(text2, viewport.width - width + 2, base - 8.5);
}
function paintArrows(ctx, arrows, rowOfLane, viewport, theme) {
  ctx.strokeStyle = ctx.fillStyle = theme.text;
  ctx.lineWidth = 1.3;
  for (const arrow of arrows) {
    const a = rowOfLane.get(arrow.from_lane);
    const b = rowOfLane.get(arrow.to_lane);
    if (!a || !b) continue;
    const [x0, x1] = [viewport.x(arrow.from_s), viewport.x(arrow.to_s)];
    const [y0, y1] = [a, b].map((row) => viewport.axis + row.y + row.height / 2 - viewport.top);
    if (Math.max(x0, x1) < viewport.left || Math.min(x0, x1) > viewport.width) continue;
    const bend = Math.max(14, Math.abs(x1 - x0) / 2);
    ctx.beginPath();
    ctx.moveTo(x0, y0);
    ctx.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(x1 + 1, y1);
    ctx.lineTo(x1 - 6, y1 - 3.5);
    ctx.lineTo(x1 - 6, y1 + 3.5);
    ctx.fill();
  }
}
function paintCursor(ctx, time, viewport, theme) {
  if (time === null || time < viewport.from || time > viewport.to) return;
  const x = Math.round(viewport.x(time)) + 0.5;
  ctx.strokeStyle = theme.text;
  ctx.lineWidth = 1;
  ctx.globalAlpha = 0.55;
  ctx.beginPath();
  ctx.moveTo(x, viewport.axis);
  ctx.lineTo(x, viewport.height);
  ctx.stroke();
  ctx.globalAlpha = 1;
}
function paintMeasure(ctx, range, viewport, theme) {
  const [x0, x1] = [Math.min(...range), Math.max(...range)].map((time) => viewport.x(time));
  ctx.globalAlpha = 0.14;
  ctx.fillStyle = theme.brand;
  ctx.fillRect(x0, viewport.axis, x1 - x0, viewport.height);
  ctx.globalAlpha = 1;
  const text2 = seconds(Math.abs(range[1] - range[0]));
  ctx.font = `600 11px ${theme.family}`;
  const width = ctx.measureText(text2).width + 12;
  const at = Math.min(Math.max((x0 + x1) / 2 - width / 2, viewport.left), viewport.width - width);
  ctx.fillStyle = theme.brand;
  ctx.fillRect(at, 2, width, 17);
  ctx.fillStyle = theme.background;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillText(text2, at + 6, 11);
}

// proteus_widgets/static/timeline/timeline.js
var HELP = "W and S zoom, A and D pan, arrow keys step through spans and rows, F focuses the selected span, 0 shows the whole step, M measures, C shows the critical path, slash searches, U unfolds the ranks that a device stands for, T holds the time of the selected span for the topology, Escape clears.";
var DIMMED = 0.16;
var CURSOR_MS = 50;
var TimelineView = class {
  /**
   * @param {Model<TimelineTraits>} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.el = el;
    this.viewport = new Viewport();
    this.kinds = model.get("kinds");
    this.boxes = new Boxes(this.kinds.length);
    this.frame = null;
    this.rows = { rows: [], height: 0 };
    this.rowOfLane = /* @__PURE__ */ new Map();
    this.tracks = /* @__PURE__ */ new Map();
    this.emphasis = null;
    this.only = -1;
    this.query = "";
    this.range = null;
    this.critical = false;
    this.unfolded = /* @__PURE__ */ new Set();
    this.cursor = noCursor();
    this.requested = 0;
    this.needed = "";
    this.asked = null;
    const help = h("p", { class: "pt-visually-hidden", id: uniqueId("help") }, HELP);
    this.canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": "Timeline of the step", "aria-describedby": help.id });
    this.live = h("div", { class: "pt-live", "aria-live": "polite" });
    this.toolbar = createToolbar(this, this.kinds);
    const stage = h("div", { class: "pt-stage" }, this.canvas);
    el.append(this.toolbar.element, stage, this.live, help);
    this.tip = createTip(stage);
    this.stage = stage;
    this.ctx = contextOf(this.canvas);
    this.telling = void 0;
    this.tellingCursor = void 0;
    listen(this.canvas, this);
  }
  // -- what came from the kernel
  load() {
    const data = this.model.get("data");
    if (!data.start) return;
    if (data.show !== this.frame?.show) this.cursor = noCursor();
    this.frame = new Frame(data);
    this.asked = null;
    this.tracks = new Map(data.memory.map((track) => [track.device, { ...track, time: column(track.time, Float64Array), live: column(track.live, Float64Array) }]));
    this.arrange(this.frame);
    this.viewport.setExtent(Math.max(data.makespan_s, this.model.get("extent_s")));
    this.toolbar.show(new Set(data.kinds_present));
    this.toolbar.critical(this.critical, data.has_critical);
    this.light();
  }
  /** @param {Frame} frame */
  arrange(frame) {
    this.rows = layoutRows(frame.lanes, this.tracks, this.members, this.unfolded);
    this.rowOfLane = new Map(this.rows.rows.filter((row) => row.type === "lane").filter((row) => !row.copy).map((row) => [row.lane, row]));
    this.viewport.scroll(0, this.rows.height);
    probe(this.model.get("probe"), { rows: this.rows.rows.length });
  }
  /** The selected span as the kernel sees it, or null. */
  get span() {
    const span = this.model.get("span");
    return "lane" in span ? span : null;
  }
  get members() {
    return this.model.get("data").members ?? {};
  }
  /**
   * Show all ranks that a device stands for, or only the device again.
   * @param {number} device
   */
  unfold(device) {
    const ranks = this.members[device];
    if (!ranks || !this.frame) return;
    const folds = this.unfolded.delete(device);
    if (!folds) this.unfolded.add(device);
    this.arrange(this.frame);
    this.moved();
    this.live.textContent = folds ? `GPU ${device} represents ${ranks.length} ranks again` : `GPU ${device} and the ${ranks.length - 1} ranks with the same times: ${ranges(ranks)}`;
  }
  unfoldSelected() {
    if (this.frame) this.unfold(this.frame.lanes[this.span?.lane ?? 0].device);
  }
  light() {
    if (!this.frame) return;
    const lit = this.model.get("lit");
    const names = this.query ? this.frame.names.map((name) => name.toLowerCase().includes(this.query)) : null;
    const kinds = this.only >= 0 ? this.kinds.map((_, kind) => kind === this.only) : null;
    const masks = names || kinds ? { names, kinds } : { nodes: columnOrNull(lit.nodes, Uint8Array), patterns: columnOrNull(lit.patterns, Uint8Array) };
    this.emphasis = this.frame.emphasis(masks);
    this.announce();
    this.ask();
  }
  announce() {
    this.live.textContent = this.span?.text ?? "";
  }
  reveal() {
    const { span } = this;
    if ((span?.id ?? -1) === this.asked) this.asked = null;
    if (this.frame && span) this.viewport.reveal(this.rowOfLane.get(span.lane), span.start_s, span.start_s + span.duration_s);
    this.announce();
    this.moved();
  }
  // -- drawing
  ask() {
    this.requested ||= requestAnimationFrame(() => {
      this.requested = 0;
      this.draw();
    });
  }
  resize() {
    const { viewport, canvas } = this;
    const ratio = window.devicePixelRatio || 1;
    viewport.width = this.stage.clientWidth;
    viewport.height = Math.min(this.model.get("height"), this.rows.height + viewport.axis + 2);
    const [width, height] = [Math.round(viewport.width * ratio), Math.round(viewport.height * ratio)];
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
      canvas.style.width = `${viewport.width}px`;
      canvas.style.height = `${viewport.height}px`;
    }
    this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    return ratio;
  }
  draw() {
    const { frame, ctx, viewport, boxes, kinds } = this;
    if (!frame || !this.stage.clientWidth) return;
    const begun = performance.now();
    const ratio = this.resize();
    const theme = themeColours(this.el);
    const shown = visibleRows(this.rows.rows, viewport.top, viewport.top + viewport.height - viewport.axis);
    ctx.fillStyle = theme.background;
    ctx.fillRect(0, 0, viewport.width, viewport.height);
    const times = ticks(viewport.from, viewport.to, viewport.width - viewport.left);
    paintGrid(ctx, viewport, theme, times);
    boxes.clear();
    ctx.fillStyle = hatch(ctx, "/", theme.line, ratio) ?? theme.line;
    for (const row of shown) {
      if (row.type !== "lane") continue;
      if (row.stream === "compute") this.paintIdle(row, frame);
      boxes.addLane(frame, row, viewport, this.emphasis, this.critical);
    }
    const colours = kinds.map((kind) => kind.colour);
    const hatches = kinds.map((kind) => kind.hatch ? hatch(ctx, kind.hatch, `${kind.ink}66`, ratio) : null);
    fillBoxes(ctx, boxes.dim, colours, DIMMED);
    fillBoxes(ctx, boxes.bright, colours, 1);
    fillHatches(ctx, boxes.bright, hatches);
    for (const row of shown) {
      const track = row.type === "memory" && this.tracks.get(row.device);
      if (track) paintMemory(ctx, row, track, viewport, theme, kinds[0].colour);
    }
    writeLabels(ctx, frame, boxes.labels, kinds, this.emphasis, theme.family);
    if (this.critical) strokeBoxes(ctx, boxes.critical, theme.text);
    this.paintSelected(theme);
    paintArrows(ctx, this.span?.arrows ?? [], this.rowOfLane, viewport, theme);
    paintGutter(ctx, shown, viewport, theme);
    paintAxis(ctx, viewport, theme, times);
    paintCursor(ctx, this.cursor.pointer ?? this.cursor.held, viewport, theme);
    if (this.range) paintMeasure(ctx, this.range, viewport, theme);
    probe(this.model.get("probe"), { draw_ms: performance.now() - begun, drawn: boxes.drawn, n: frame.length, total: frame.total, rev: frame.rev, show: frame.show, lod: frame.lod, from: viewport.from, to: viewport.to });
  }
  /**
   * @param {Row} row
   * @param {Frame} frame
   */
  paintIdle(row, frame) {
    const { viewport, ctx } = this;
    const x1 = Math.min(viewport.width, viewport.x(frame.makespan));
    const y = viewport.axis + row.y - viewport.top;
    ctx.fillRect(viewport.left, y, x1 - viewport.left, row.height);
  }
  /** @param {Theme} theme */
  paintSelected(theme) {
    const { span } = this;
    const row = span && this.rowOfLane.get(span.lane);
    if (!row) return;
    const { viewport, ctx } = this;
    const x = Math.max(viewport.x(span.start_s), viewport.left);
    const width = Math.max(viewport.x(span.start_s + span.duration_s) - x, 2);
    const y = viewport.axis + row.y - viewport.top;
    if (x > viewport.width || x + width < viewport.left) return;
    ctx.strokeStyle = theme.background;
    ctx.lineWidth = 4;
    ctx.strokeRect(x - 1, y - 1, width + 2, row.height + 2);
    ctx.strokeStyle = theme.text;
    ctx.lineWidth = 2;
    ctx.strokeRect(x - 1, y - 1, width + 2, row.height + 2);
  }
  // -- moving
  /** @param {() => void} change */
  move(change) {
    if (!this.frame) return;
    change();
    this.moved();
  }
  moved() {
    this.tip.hide();
    this.ask();
    const { viewport } = this;
    clearTimeout(this.telling);
    this.telling = setTimeout(() => {
      if (!this.frame) return;
      const view = [viewport.from, viewport.to];
      if (this.model.get("view").join() !== view.join()) {
        this.model.set("view", view);
        this.model.save_changes();
      }
      if (this.frame.lod) this.need(this.frame);
    }, 40);
  }
  // Another view of the same step moved: follow it.
  follow() {
    const [from, to] = this.model.get("view");
    const { viewport } = this;
    if (!this.frame || from === void 0 || to === void 0 || from === viewport.from && to === viewport.to) return;
    viewport.set(from, to);
    this.ask();
    if (this.frame.lod) this.need(this.frame);
  }
  /** @param {Frame} frame */
  need(frame) {
    const { viewport } = this;
    const half = (viewport.to - viewport.from) / 2;
    const lanes = visibleRows(this.rows.rows, viewport.top - 120, viewport.top + viewport.height + 120).filter((row) => row.type === "lane");
    if (!lanes.length) return;
    const window2 = { from_s: viewport.from - half, to_s: viewport.to + half, first_lane: Math.min(...lanes.map((row) => row.lane)), last_lane: Math.max(...lanes.map((row) => row.lane)) + 1, pixels: Math.round((viewport.width - viewport.left) * 2) };
    const needed = JSON.stringify([frame.show, window2]);
    if (needed === this.needed) return;
    this.needed = needed;
    this.model.send({ type: "need", ...window2 });
  }
  /** @param {number} by */
  scroll(by) {
    const moved = this.viewport.scroll(by, this.rows.height);
    if (moved) this.moved();
    return moved;
  }
  // -- selecting
  /**
   * @param {number} x
   * @param {number} y
   */
  hit(x, y) {
    const { viewport, frame } = this;
    if (!frame || x < viewport.left || y < viewport.axis) return null;
    const row = rowAt(this.rows.rows, y - viewport.axis + viewport.top);
    if (!row) return null;
    const span = row.type === "lane" ? frame.at(row.lane, viewport.time(x), 2 / viewport.scale) : -1;
    return { row, span };
  }
  /**
   * @param {number} x
   * @param {number} y
   */
  hover(x, y) {
    const { viewport, frame } = this;
    const time = viewport.time(x);
    this.point(frame && x >= viewport.left && time >= 0 && time <= frame.makespan ? time : null);
    const hit = this.hit(x, y);
    const lines = frame && hit ? this.describe(hit, time, frame) : this.describeGutter(x, y);
    if (lines) this.tip.show(lines, x, y);
    else this.tip.hide();
  }
  /**
   * @param {{ row: Row, span: number }} hit
   * @param {number} time
   * @param {Frame} frame
   */
  describe({ row, span }, time, frame) {
    if (row.type === "memory") {
      const track = this.tracks.get(row.device);
      if (!track) return null;
      const i = track.time.findLastIndex((value) => value <= time);
      return [`${bytes(track.live[Math.max(i, 0)])} in use`, `capacity ${bytes(track.capacity)}`, `at ${seconds(time)}`];
    }
    if (span < 0) return null;
    const shared = row.copy ? `same times as GPU ${row.device}` : "";
    const micro = frame.microOf(span) >= 0 ? ` · micro-batch ${frame.microOf(span)}` : "";
    const copies = row.multiplicity > 1 && !row.unfolded ? ` · represents ${row.multiplicity} ranks` : "";
    return [frame.names[frame.name[span]], this.kinds[frame.kind[span]].label + micro, `${seconds(frame.duration[span])} from ${seconds(frame.start[span], 6)}`, `${row.label} · ${row.stream}${copies}`, shared];
  }
  /**
   * @param {number} x
   * @param {number} y
   */
  describeGutter(x, y) {
    const row = this.gutterRow(x, y);
    const ranks = row && this.members[row.device];
    return ranks ? [`${ranks.length} ranks with the same times`, `GPU ${ranges(ranks)}`, `click to ${row.unfolded ? "fold" : "unfold"}`] : null;
  }
  /**
   * @param {number} x
   * @param {number} y
   */
  gutterRow(x, y) {
    const { viewport } = this;
    return this.frame && x >= 0 && x < viewport.left && y >= viewport.axis ? rowAt(this.rows.rows, y - viewport.axis + viewport.top) : null;
  }
  /**
   * The time under the pointer (or the one that is held): the kernel shows the links as they are used then.
   * @param {number | null} time
   */
  point(time) {
    if (time === this.cursor.pointer) return;
    this.cursor.pointer = time;
    this.ask();
    this.tell();
  }
  hold() {
    const { cursor, span, viewport } = this;
    const time = span ? span.start_s + span.duration_s / 2 : (viewport.from + viewport.to) / 2;
    cursor.held = cursor.held === time ? null : time;
    this.live.textContent = cursor.held === null ? "link utilisation over the step" : `link utilisation at ${seconds(time)}`;
    this.ask();
    this.tell();
  }
  tell() {
    const { cursor } = this;
    this.tellingCursor ||= setTimeout(() => {
      this.tellingCursor = void 0;
      const time = cursor.pointer ?? cursor.held;
      if (cursor !== this.cursor || time === cursor.told) return;
      cursor.told = time;
      this.model.send({ type: "cursor", at_s: time });
    }, CURSOR_MS);
  }
  /**
   * Keys may come faster than the kernel answers: the next step goes on from what was asked for last.
   * @param {number} id
   */
  select(id) {
    this.asked = id;
    this.model.send({ type: "select", what: "span", id });
  }
  /**
   * @param {number} x
   * @param {number} y
   */
  pick(x, y) {
    const row = this.gutterRow(x, y);
    if (row) return this.unfold(row.device);
    const hit = this.hit(x, y);
    this.select(this.frame && hit && hit.span >= 0 ? this.frame.idOf(hit.span) : -1);
  }
  get selected() {
    return this.asked ?? this.span?.id ?? -1;
  }
  /** @param {number} by */
  step(by) {
    if (!this.frame) return;
    const row = this.frame.rowOf(this.selected);
    const next = row < 0 ? 0 : Math.max(0, Math.min(row + by, this.frame.length - 1));
    this.select(this.frame.idOf(next));
  }
  /** @param {number} by */
  stepLane(by) {
    const { frame } = this;
    if (!frame) return;
    const row = frame.rowOf(this.selected);
    if (row < 0) return this.step(0);
    const time = frame.start[row];
    for (let lane = frame.laneOf(row) + by; lane >= 0 && lane < frame.lanes.length; lane += by) {
      const found = frame.at(lane, time, Infinity);
      if (found >= 0) return this.select(frame.idOf(found));
    }
  }
  focusSelected() {
    const { span } = this;
    if (!span) return;
    const margin = Math.max(span.duration_s * 3, this.viewport.extent * 1e-6);
    this.move(() => this.viewport.set(span.start_s - margin, span.start_s + span.duration_s + margin));
  }
  /**
   * @param {number} from
   * @param {number} to
   */
  measure(from, to) {
    this.range = [from, to];
    this.live.textContent = `${seconds(Math.abs(to - from))} from ${seconds(Math.min(from, to))}`;
    this.ask();
  }
  measureSelected() {
    const { span } = this;
    if (span) this.measure(span.start_s, span.start_s + span.duration_s);
  }
  clear() {
    this.range = null;
    this.cursor.held = null;
    this.tell();
    if (this.only >= 0) this.filter(this.only);
    this.select(-1);
    this.ask();
  }
  toggleCritical() {
    this.critical = !this.critical;
    this.toolbar.critical(this.critical, true);
    this.model.send({ type: "critical", on: this.critical });
    this.ask();
  }
  /** @param {number} kind */
  filter(kind) {
    this.only = this.only === kind ? -1 : kind;
    this.toolbar.press(this.only);
    this.light();
  }
  focusSearch() {
    this.toolbar.search.focus();
  }
  /** @param {string} text */
  search(text2) {
    this.query = text2.trim().toLowerCase();
    this.light();
    const count = this.query && this.emphasis ? this.emphasis.reduce((sum, lit) => sum + lit, 0) : 0;
    this.toolbar.found(this.query ? `${count.toLocaleString("en")} found` : "");
  }
  /** @param {number} by */
  nextMatch(by) {
    const { emphasis, frame } = this;
    if (!frame || !emphasis) return;
    const row = frame.rowOf(this.selected);
    for (let k = 1; k <= frame.length; k++) {
      const i = ((row + by * k) % frame.length + frame.length) % frame.length;
      if (emphasis[i]) return this.select(frame.idOf(i));
    }
  }
};
function noCursor() {
  return { pointer: null, held: null, told: null };
}
function render({ model, el }) {
  prepare(el, "timeline");
  const view = new TimelineView(model, el);
  const unwatch = watch(model, {
    data: () => view.load(),
    lit: () => view.light(),
    span: () => view.reveal(),
    view: () => view.follow(),
    height: () => view.ask(),
    extent_s: () => view.load()
  });
  const sizes = new ResizeObserver(() => view.ask());
  sizes.observe(el);
  const untheme = onTheme(() => view.ask());
  view.load();
  return () => {
    unwatch();
    untheme();
    sizes.disconnect();
    cancelAnimationFrame(view.requested);
    clearTimeout(view.telling);
    clearTimeout(view.tellingCursor);
  };
}
var timeline_default = { render };

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
function render2({ model, el }) {
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
var topology_default = { render: render2 };

// proteus_widgets/static/tree/inspector.js
function createInspector(edit, back) {
  const title = h("div", { class: "pt-inspector-title" });
  const facts = h("div", { class: "pt-inspector-facts" });
  const fields = h("div", { class: "pt-fields" });
  const element2 = h("div", { class: "pt-inspector", role: "group", "aria-label": "Selected node", hidden: true }, title, facts, fields);
  element2.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") back();
  });
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
    element: element2,
    focus: () => fields.querySelector("select")?.focus(),
    /**
     * @param {TreeRow[]} rows
     * @param {Editor[]} editors
     */
    show(rows, editors) {
      const row = rows[0];
      const focused = element2.contains(document.activeElement) ? document.activeElement?.getAttribute("aria-label") : null;
      element2.hidden = !row;
      if (!row) return;
      const name = (one) => one.path || one.label;
      title.textContent = rows.length > 1 ? `${rows.length} nodes: ${rows.map(name).join(", ")}` : name(row);
      facts.textContent = [row.partition && `partition ${row.partition}`, row.memory && `memory ${row.memory}`].filter(Boolean).join(" · ") || "inherited from the parent";
      if (rows.length > 1) facts.textContent = editors.length ? "an edit applies to all of them" : "they have no field in common";
      fields.replaceChildren(...editors.map((editor) => h("label", { class: "pt-field" }, h("span", { class: "pt-field-name" }, editor.label), choice(editor))));
      if (focused) [...fields.querySelectorAll("select")].find((node) => node.getAttribute("aria-label") === focused)?.focus();
    }
  };
}

// proteus_widgets/static/tree/tree.js
var TreeView = class {
  /**
   * @param {Model<TreeTraits>} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.rows = [];
    this.children = [];
    this.open = /* @__PURE__ */ new Set();
    this.current = 0;
    this.anchor = -1;
    this.editNext = false;
    this.items = /* @__PURE__ */ new Map();
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
      if (event.key === "Escape") this.find(this.search.value = "");
    });
  }
  load() {
    const rows = this.model.get("rows");
    if (!rows.length) return;
    const focused = this.list.contains(document.activeElement);
    const key = (row) => row && `${row.kind} ${row.path || row.label.split(" · ")[0]}`;
    const current = key(this.rows[this.current]);
    const wasOpen = new Map(this.rows.map((row) => [key(row), this.open.has(row.id)]));
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
    const line = h(
      "div",
      { class: "pt-row", style: `padding-left: ${(level - 1) * 15 + 4}px` },
      h("span", { class: kids.length ? "pt-twist" : "pt-twist pt-leaf", "aria-hidden": "true" }),
      h("i", { class: `pt-dot pt-dot-${row.kind}`, "aria-hidden": "true" }),
      label
    );
    if (row.count > 1) line.append(h("span", { class: "pt-count" }, `×${row.count}`));
    const badges = h("span", { class: "pt-badges", id: `${this.stem}-${id}-b` });
    for (const badge of row.badges) badges.append(h("span", { class: "pt-badge" }, badge));
    line.append(badges);
    const share = this.model.get("shares")[id];
    if (share > 5e-4) line.append(h("span", { class: "pt-share", title: `${(share * 100).toFixed(1)} % of the busy time`, style: `--share: ${share}` }, `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`));
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
    const group = (
      /** @type {HTMLElement} */
      li.querySelector(":scope > ul")
    );
    if (open && !group.childElementCount) {
      this.fill(group, id, Number(li.getAttribute("aria-level")));
      this.mark(false);
    }
  }
  visible() {
    const out = [];
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
    return [this.model.get("selected"), ...this.model.get("others") ?? []].filter((id) => id >= 0 && this.rows[id]);
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
    const next = event.key === "ArrowDown" ? shown[at + 1] : event.key === "ArrowUp" ? shown[at - 1] : void 0;
    if (event.shiftKey && next !== void 0) {
      this.extend(next);
      return taken(event);
    }
    switch (event.key) {
      case "ArrowDown":
        this.focus(shown[at + 1]);
        break;
      case "ArrowUp":
        this.focus(shown[at - 1]);
        break;
      case "Home":
        this.focus(shown[0]);
        break;
      case "End":
        this.focus(shown[shown.length - 1]);
        break;
      case "ArrowRight":
        if (this.open.has(id)) this.focus(kids[0]);
        else this.toggle(id, true);
        break;
      case "ArrowLeft":
        if (this.open.has(id) && kids.length) this.toggle(id, false);
        else this.focus(this.rows[id].parent);
        break;
      case "*":
        this.children[this.rows[id].parent]?.forEach((kid) => this.toggle(kid, true));
        break;
      case " ":
        this.select(id);
        break;
      case "Enter":
      case "F2":
        if (this.model.get("selected") === id) this.inspector.focus();
        else {
          this.editNext = true;
          this.select(id);
        }
        break;
      case "Escape":
        this.send([]);
        break;
      default:
        if (!this.typeAhead(event.key, shown, at)) return;
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
    if (found !== void 0) this.focus(found);
    return true;
  }
  /**
   * Show only the rows whose path contains the text, and what leads to them.
   * @param {string} text
   */
  find(text2) {
    const query = text2.trim().toLowerCase();
    const keep = /* @__PURE__ */ new Set();
    if (query) {
      for (const row of this.rows) {
        if (!`${row.path} ${row.label}`.toLowerCase().includes(query)) continue;
        for (let id = row.id; id >= 0 && !keep.has(id); id = this.rows[id].parent) keep.add(id);
      }
      keep.forEach((id) => this.toggle(id, true));
    }
    this.items.forEach((li, id) => {
      li.hidden = Boolean(query) && !keep.has(id);
    });
  }
  mark(move = true) {
    const selected = this.model.get("selected");
    if (move && selected >= 0) {
      const above = [];
      for (let id = this.rows[selected]?.parent ?? -1; id >= 0; id = this.rows[id].parent) above.unshift(id);
      above.forEach((id) => this.toggle(id, true));
    }
    const picked = new Set(this.picked());
    this.items.forEach((li2, id) => li2.setAttribute("aria-selected", String(picked.has(id))));
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
};
function rowOf(item) {
  return (
    /** @type {HTMLElement} */
    item.querySelector(".pt-row")
  );
}
function idAt(element2) {
  const item = element2.closest("[role=treeitem]");
  return item instanceof HTMLElement ? Number(item.dataset.id) : -1;
}
function scrollWithin(box, node) {
  const [outer, inner] = [box.getBoundingClientRect(), node.getBoundingClientRect()];
  if (inner.top < outer.top) box.scrollTop -= outer.top - inner.top;
  else if (inner.bottom > outer.bottom) box.scrollTop += inner.bottom - outer.bottom;
}
function render3({ model, el }) {
  prepare(el, "tree");
  const view = new TreeView(model, el);
  const unwatch = watch(model, {
    rows: () => view.load(),
    shares: () => {
      if (view.rows.length) view.build();
    },
    selected: () => view.mark(),
    others: () => view.mark(),
    editors: () => view.editors(),
    message: () => view.say(),
    failed: () => view.say()
  });
  view.load();
  view.say();
  return unwatch;
}
var tree_default = { render: render3 };

// proteus_widgets/static/common/table.js
function table(caption, head, rows) {
  const titles = head.map((text2) => text2 ? h("th", { scope: "col" }, text2) : h("td"));
  return h("table", { class: "pt-table" }, h("caption", {}, caption), h("thead", {}, h("tr", {}, ...titles)), h("tbody", {}, ...rows));
}

// proteus_widgets/static/panels/why.js
function ladder(steps) {
  const total = Math.max(...steps.map((step) => step.until_s), 1e-12);
  return steps.map((step) => {
    const from = Math.min(step.until_s, step.until_s - step.seconds) / total;
    const row = h(
      "tr",
      {},
      h("th", { scope: "row" }, step.label),
      h("td", { class: "pt-number" }, seconds(step.seconds)),
      h("td", { class: "pt-number" }, percent(step.seconds / total)),
      h("td", { class: "pt-bar-cell" }, h("i", { class: `pt-bar${step.ideal ? " pt-bar-ideal" : ""}`, style: `margin-left: ${from * 100}%; width: ${Math.abs(step.seconds) / total * 100}%` }))
    );
    row.title = step.note ?? "";
    return row;
  });
}
function render4({ model, el }) {
  prepare(el, "why");
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
var why_default = { render: render4 };

// proteus_widgets/static/offline/link.js
var Linker = class {
  /**
   * @param {Models} models
   * @param {ReportExtra} extra
   */
  constructor(models, extra) {
    this.models = models;
    this.parents = extra.parents;
    this.firstLink = new Map(extra.first_link);
    this.pointer = column(extra.pattern_ptr, Int32Array);
    this.links = column(extra.pattern_link, Int32Array);
    const data = models.timeline.get("data");
    if (!data.start) throw new Error("the report has no spans");
    this.data = data;
    this.node = column(data.node, Int32Array);
    this.pattern = column(data.pattern, Int32Array);
    this.start = column(data.start, Float64Array);
    this.duration = column(data.duration, Float32Array);
    this.kind = column(data.kind, Uint8Array);
    this.name = column(data.name, Int32Array);
    this.lanes = column(data.lane_ptr, Uint32Array);
  }
  /** @param {Message} message */
  receive(message) {
    if (message.type !== "select") return;
    const { what, id } = message;
    if (id < 0) this.show({});
    else if (what === "span") this.show({ span: id, node: this.node[id], links: this.linksOf([this.pattern[id]]) });
    else if (what === "link") this.selectLink(id);
    else this.selectNodes([id, ...message.others ?? []]);
  }
  /** @param {Iterable<number>} patterns */
  linksOf(patterns) {
    const found = /* @__PURE__ */ new Set();
    for (const pattern of patterns) if (pattern >= 0) for (let i = this.pointer[pattern]; i < this.pointer[pattern + 1]; i++) found.add(this.links[i]);
    return found;
  }
  /** @param {number} link */
  selectLink(link) {
    const first = this.firstLink.get(link) ?? link;
    const patterns = new Uint8Array(this.pointer.length - 1);
    for (let pattern = 0; pattern < patterns.length; pattern++) for (let i = this.pointer[pattern]; i < this.pointer[pattern + 1]; i++) if (this.links[i] === first) patterns[pattern] = 1;
    this.show({ link, links: /* @__PURE__ */ new Set([first]), patterns });
  }
  /** @param {number[]} picked */
  selectNodes(picked) {
    const nodes = new Uint8Array(this.parents.length);
    this.parents.forEach((parent, row) => {
      nodes[row] = picked.includes(row) || parent >= 0 && nodes[parent] ? 1 : 0;
    });
    const patterns = /* @__PURE__ */ new Set();
    for (let i = 0; i < this.node.length; i++) if (nodes[this.node[i]]) patterns.add(this.pattern[i]);
    const [node, ...others] = picked;
    this.show({ node, others, nodes, links: this.linksOf(patterns) });
  }
  /**
   * @param {number} span
   * @returns {TimelineTraits["span"]}
   */
  describe(span) {
    if (span < 0) return { id: -1 };
    let lane = 0;
    while (this.lanes[lane + 1] <= span) lane++;
    const kinds = this.models.timeline.get("kinds");
    const row = this.data.lanes[lane];
    const text2 = [this.data.names[this.name[span]], kinds[this.kind[span]].label, `${row.label} ${row.stream}`, `starts ${seconds(this.start[span])}`, `lasts ${seconds(this.duration[span])}`].join(" · ");
    return { id: span, lane, start_s: this.start[span], duration_s: this.duration[span], text: text2 };
  }
  /** @param {Lit} lit */
  show({ span = -1, node = -1, others = [], link = -1, links = /* @__PURE__ */ new Set(), nodes, patterns }) {
    const view = (mask) => mask && new DataView(mask.buffer);
    const { timeline, topology, tree } = this.models;
    timeline.set("lit", { nodes: view(nodes), patterns: view(patterns) });
    timeline.set("span", this.describe(span));
    topology.set("selected", link);
    topology.set("lit", [...this.firstLink].filter(([, first]) => links.has(first)).map(([own]) => own));
    tree.set("others", others);
    tree.set("selected", node);
  }
};

// proteus_widgets/static/offline/model.js
var OfflineModel = class {
  /**
   * @param {Traits} state
   * @param {(message: Message) => void} receive
   */
  constructor(state, receive) {
    this.state = state;
    this.receive = receive;
    this.handlers = /* @__PURE__ */ new Map();
  }
  /**
   * @template {keyof Traits} Name
   * @param {Name} name
   */
  get(name) {
    return this.state[name];
  }
  /**
   * @template {keyof Traits} Name
   * @param {Name} name
   * @param {Traits[Name]} value
   */
  set(name, value) {
    this.state[name] = value;
    for (const handler of this.handlers.get(`change:${String(name)}`) ?? []) handler();
  }
  /**
   * @param {string} event
   * @param {() => void} handler
   */
  on(event, handler) {
    this.handlers.set(event, [...this.handlers.get(event) ?? [], handler]);
  }
  /**
   * @param {string} event
   * @param {() => void} handler
   */
  off(event, handler) {
    this.handlers.set(event, (this.handlers.get(event) ?? []).filter((other) => other !== handler));
  }
  save_changes() {
  }
  /** @param {Message} message */
  send(message) {
    this.receive(message);
  }
};
var isColumn = (value) => "$" in value;
function restore(value, bytes2) {
  if (Array.isArray(value)) return value.map((item) => restore(item, bytes2));
  if (value === null || typeof value !== "object") return value;
  if (isColumn(value)) return new DataView(bytes2.buffer, bytes2.byteOffset + value.$[0], value.$[1]);
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, restore(item, bytes2)]));
}
async function unpack(text2) {
  const packed = Uint8Array.from(atob(text2), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// proteus_widgets/static/offline/report.js
function element(id) {
  const there = document.getElementById(id);
  if (!there) throw new Error(`the report has no #${id}`);
  return there;
}
var text = (id) => element(id).textContent ?? "";
async function start() {
  const light = !matchMedia("(prefers-color-scheme: dark)").matches;
  document.body.dataset.jpThemeLight = String(light);
  const { views, extra } = (
    /** @type {ReportState} */
    restore(JSON.parse(text("state")), await unpack(text("columns")))
  );
  let linker = null;
  const receive = (message) => linker?.receive(message);
  const models = {
    timeline: new OfflineModel(views.timeline, receive),
    topology: new OfflineModel(views.topology, receive),
    tree: new OfflineModel(views.tree, receive),
    why: new OfflineModel(views.why, receive)
  };
  linker = new Linker(models, extra);
  timeline_default.render({ model: models.timeline, el: element("timeline") });
  topology_default.render({ model: models.topology, el: element("topology") });
  tree_default.render({ model: models.tree, el: element("tree") });
  why_default.render({ model: models.why, el: element("why") });
}
start();
