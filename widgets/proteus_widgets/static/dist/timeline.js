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
var seconds = (value, digits = 4) => value === 0 ? "0 s" : scaled(value, SECONDS, digits);
var bytes = (value, digits = 4) => scaled(value, BYTES, digits);
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
    const { start, duration, kind, critical } = frame;
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
    for (let i = frame.firstVisible(row.lane, from); i < high && start[i] < to; i++) {
      const x = left + (start[i] - from) * scale;
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
    const { start, duration, kind } = frame;
    const { left, scale, from, to } = viewport;
    const high = frame.pointer[row.lane + 1];
    const near = 3 / scale;
    for (let i = frame.firstVisible(row.lane, from); i < high && start[i] < to; ) {
      const first = i;
      let end = start[i] + duration[i];
      for (i++; i < high && kind[i] === 0 === (kind[first] === 0) && frame.microOf(i) === frame.microOf(first) && start[i] - end < near && start[i] < to; i++) end = start[i] + duration[i];
      const x = Math.max(left, left + (start[first] - from) * scale);
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
  reveal(row, start, end) {
    if (row) {
      if (row.y < this.top) this.top = row.y - 4;
      else if (row.y + row.height > this.top + this.height - this.axis) this.top = row.y + row.height - (this.height - this.axis) + 4;
      this.top = Math.max(0, this.top);
    }
    if (end < this.from || start > this.to) {
      const half = (this.to - this.from) / 2;
      this.set((start + end) / 2 - half, (start + end) / 2 + half);
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
  const element = h(
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
    element,
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
    found(text) {
      found.textContent = text;
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
    const text = name && both.length * 5.8 + 6 <= width ? both : micro >= 0 && String(micro).length * 6 + 4 <= width ? String(micro) : "";
    if (!text) continue;
    ctx.fillStyle = kinds[frame.kind[i]].ink;
    ctx.fillText(text, x + width / 2, y + 0.5);
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
    const text = seconds(time, 6);
    if (x + 4 + text.length * 6.2 < width) ctx.fillText(text, x + 4, axis / 2);
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
function clipped(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && ctx.measureText(`${text.slice(0, end)}…`).width > width) end--;
  return `${text.slice(0, end)}…`;
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
  const text = `peak ${bytes(track.peak, 3)}`;
  ctx.font = `10px ${theme.family}`;
  const width = ctx.measureText(text).width + 8;
  ctx.fillStyle = theme.background;
  ctx.globalAlpha = 0.8;
  ctx.fillRect(viewport.width - width - 2, base - 16, width, 14);
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.text;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillText(text, viewport.width - width + 2, base - 8.5);
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
  const text = seconds(Math.abs(range[1] - range[0]));
  ctx.font = `600 11px ${theme.family}`;
  const width = ctx.measureText(text).width + 12;
  const at = Math.min(Math.max((x0 + x1) / 2 - width / 2, viewport.left), viewport.width - width);
  ctx.fillStyle = theme.brand;
  ctx.fillRect(at, 2, width, 17);
  ctx.fillStyle = theme.background;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillText(text, at + 6, 11);
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
  search(text) {
    this.query = text.trim().toLowerCase();
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
export {
  timeline_default as default
};
