import "../base.css";
import "../timeline.css";
import { h, prepare, uniqueId, watch } from "../common/dom.js";
import { column, columnOrNull } from "../common/columns.js";
import { bytes, ranges, seconds } from "../common/format.js";
import { onTheme, themeColours } from "../common/theme.js";
import { probe } from "../common/probe.js";
import { createTip } from "../common/tip.js";
import { Boxes } from "./boxes.js";
import { Frame } from "./spans.js";
import { Viewport } from "./viewport.js";
import { layoutRows, rowAt, visibleRows } from "./rows.js";
import { createToolbar } from "./toolbar.js";
import { listen } from "./input.js";
import { contextOf, fillBoxes, fillHatches, hatch, paintArrows, paintAxis, paintCursor, paintGrid, paintGutter, paintMeasure, paintMemory, strokeBoxes, ticks, writeLabels } from "./paint.js";
/** @import { Masks, MemoryMessage, Model, RenderProps, SpanPlace, TimelineTraits } from "../types" */
/** @import { Theme } from "../common/theme.js" */
/** @import { Actions } from "./actions" */
/** @import { Track } from "./paint.js" */
/** @import { LaneRow, Row } from "./rows.js" */
/** @import { Emphasis } from "./spans.js" */

const HELP = "W and S zoom, A and D pan, arrow keys step through spans and rows, F focuses the selected span, 0 shows the whole step, M measures, C shows the critical path, slash searches, U unfolds the ranks that a device stands for, T holds the time of the selected span for the topology, Escape clears.";
const DIMMED = 0.16;
const CURSOR_MS = 50; // the kernel is told at most so often where the pointer is

/** @implements {Actions} */
class TimelineView {
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
    /** @type {Frame | null} */
    this.frame = null;
    /** @type {ReturnType<typeof layoutRows>} */
    this.rows = { rows: [], height: 0 };
    /** @type {Map<number, LaneRow>} */
    this.rowOfLane = new Map();
    /** @type {Map<number, Track>} by device */
    this.tracks = new Map();
    /** @type {Uint8Array | null} which spans stand out; null when all do */
    this.emphasis = null;
    this.only = -1; // kind singled out by the legend
    this.query = "";
    /** @type {[from: number, to: number] | null} */
    this.range = null;
    this.critical = false;
    /** @type {Set<number>} */
    this.unfolded = new Set(); // devices whose ranks all have rows
    this.cursor = noCursor();
    this.requested = 0;
    this.needed = ""; // the level of detail that was asked for last
    /** @type {number | null} */
    this.asked = null; // the selection that the kernel has not confirmed yet
    const help = h("p", { class: "pt-visually-hidden", id: uniqueId("help") }, HELP);
    this.canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": "Timeline of the step", "aria-describedby": help.id });
    this.live = h("div", { class: "pt-live", "aria-live": "polite" });
    this.toolbar = createToolbar(this, this.kinds);
    const stage = h("div", { class: "pt-stage" }, this.canvas);
    el.append(this.toolbar.element, stage, this.live, help);
    this.tip = createTip(stage);
    this.stage = stage;
    this.ctx = contextOf(this.canvas);
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.telling = undefined;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.tellingCursor = undefined;
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

  get members() { return this.model.get("data").members ?? {}; }

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
    /** @type {Emphasis} */
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
    if (!frame || !this.stage.clientWidth) return; // hidden: the observer of its size calls again
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
    const hatches = kinds.map((kind) => (kind.hatch ? hatch(ctx, kind.hatch, `${kind.ink}66`, ratio) : null));
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
      /** @type {[from: number, to: number]} */
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
    if (!this.frame || from === undefined || to === undefined || (from === viewport.from && to === viewport.to)) return;
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
    const window = { from_s: viewport.from - half, to_s: viewport.to + half, first_lane: Math.min(...lanes.map((row) => row.lane)), last_lane: Math.max(...lanes.map((row) => row.lane)) + 1, pixels: Math.round((viewport.width - viewport.left) * 2) };
    const needed = JSON.stringify([frame.show, window]);
    if (needed === this.needed) return; // it is here already, or on its way
    this.needed = needed;
    this.model.send({ type: "need", ...window });
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
      this.tellingCursor = undefined;
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

  get selected() { return this.asked ?? this.span?.id ?? -1; }

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

  focusSearch() { this.toolbar.search.focus(); }

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
      const i = (((row + by * k) % frame.length) + frame.length) % frame.length;
      if (emphasis[i]) return this.select(frame.idOf(i));
    }
  }
}

/** @returns {{ pointer: number | null, held: number | null, told: number | null }} times [s] */
function noCursor() {
  return { pointer: null, held: null, told: null };
}

/** @param {RenderProps<TimelineTraits>} props */
function render({ model, el }) {
  prepare(el, "timeline");
  const view = new TimelineView(model, el);
  const unwatch = watch(model, {
    data: () => view.load(),
    lit: () => view.light(),
    span: () => view.reveal(),
    view: () => view.follow(),
    height: () => view.ask(),
    extent_s: () => view.load(),
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

export default { render };
