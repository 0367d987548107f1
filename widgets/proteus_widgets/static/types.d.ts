// What Python and the views send each other. The traits are those of the widget classes in Python:
// tests/widgets/test_types.py compares the names.

/** Bytes of a typed array, at any offset; common/columns.js reads them. */
export type Column = DataView<ArrayBuffer>;
export type Value = string | number | boolean;

/** What a view needs of the model that anywidget hands it; offline/model.js stands in for it. */
export interface Model<Traits> {
  get<Name extends keyof Traits>(name: Name): Traits[Name];
  set<Name extends keyof Traits>(name: Name, value: Traits[Name]): void;
  on(event: `change:${string}`, handler: () => void): void;
  off(event: `change:${string}`, handler: () => void): void;
  save_changes(): void;
  send(message: Message): void;
}

/** The model where a kernel runs: it can answer with messages. */
export interface LiveModel<Traits> extends Model<Traits> {
  on(event: `change:${string}`, handler: () => void): void;
  on(event: "msg:custom", handler: (message: { type: string }, buffers: Column[]) => void): void;
  off(event: `change:${string}`, handler: () => void): void;
  off(event: "msg:custom", handler: (message: { type: string }, buffers: Column[]) => void): void;
}

export interface RenderProps<Traits> {
  model: Model<Traits>;
  el: HTMLElement;
}

/** What views tell Python. */
export type Message =
  | Select
  | { type: "edit"; paths: string[]; field: string; value: Value }
  | { type: "set"; name: string; value: Value | null }
  | { type: "action"; name: string }
  | { type: "apply"; index: number }
  | { type: "open"; host: number }
  | { type: "cursor"; at_s: number | null }
  | { type: "critical"; on: boolean }
  | ({ type: "need" } & DetailWindow)
  | { type: "library" };

export interface Select {
  type: "select";
  what: "span" | "link" | "node";
  id: number; // -1 for none
  others?: number[];
}

export interface Option<T = Value> {
  value: T;
  label: string;
  reason?: string; // why it cannot be picked
}

// -- timeline

export interface TimelineTraits {
  data: FrameData | { start?: undefined; members?: undefined };
  lit: Masks;
  span: SpanPlace | { id?: -1 };
  kinds: Kind[];
  view: [from: number, to: number] | [];
  height: number;
  extent_s: number;
  probe: string;
}

export interface FrameData {
  rev: number;
  show: number;
  total: number;
  lod: boolean;
  makespan_s: number;
  lanes: Lane[];
  names: string[];
  has_critical: boolean;
  kinds_present: number[];
  memory: MemoryMessage[];
  members: Record<string, number[]>;
  start: Column;
  duration: Column;
  kind: Column;
  node: Column;
  name: Column;
  micro: Column;
  pattern: Column;
  lane_ptr: Column;
  critical?: Column;
  id?: Column; // only with a level of detail
}

export interface Lane {
  device: number;
  stream: string;
  label: string;
  multiplicity: number;
}

export interface MemoryMessage {
  device: number;
  time: Column;
  live: Column;
  capacity: number;
  peak: number;
}

export interface Masks {
  nodes?: Column;
  patterns?: Column;
}

export interface SpanPlace {
  id: number;
  lane: number;
  start_s: number;
  duration_s: number;
  text: string;
  arrows?: Arrow[];
}

export interface Arrow {
  from_lane: number;
  from_s: number;
  to_lane: number;
  to_s: number;
}

export interface Kind {
  label: string;
  colour: string;
  ink: string;
  hatch: string;
}

export interface DetailWindow {
  from_s: number;
  to_s: number;
  first_lane: number;
  last_lane: number;
  pixels: number;
}

// -- topology

export interface TopologyTraits {
  picture: Picture | { nodes?: undefined };
  use: number[][];
  busy: Record<string, number>;
  lit: number[];
  selected: number;
  info: string[];
  caption: string;
  closable: boolean;
}

export interface Picture {
  width: number;
  height: number;
  note: string;
  nodes: PictureNode[];
  edges: PictureEdge[];
  hosts: PictureHost[];
}

export interface PictureNode {
  name: string;
  label: string;
  kind: string;
  x: number;
  y: number;
  width: number;
  height: number;
  device: number; // -1 for what is no GPU
}

export interface PictureEdge {
  ends: [string, string];
  links: number[];
  kind: string;
  capacity: number | null; // null: never limits
  path: string;
}

export interface PictureHost {
  host: number;
  label: string;
  x: number;
  y: number;
  width: number;
  height: number;
  cells: { x: number; y: number; device: number }[];
}

// -- tree

export interface TreeTraits {
  rows: TreeRow[];
  shares: number[];
  selected: number;
  others: number[];
  editors: Editor[];
  message: string;
  failed: boolean;
}

export interface TreeRow {
  id: number;
  parent: number;
  path: string;
  label: string;
  count: number;
  kind: string;
  badges: string[];
  partition: string;
  memory: string;
}

export interface Editor {
  field: string;
  label: string;
  value: Value;
  options: Option[];
}

// -- panels

export interface ChartTraits {
  items: { figure: { root_id: string }; alt: string }[];
  dark: boolean;
  version: string;
}

export interface CodeTraits {
  python: string;
  yaml: string;
}

export interface CompareTraits {
  comparison: Comparison | { rows?: undefined };
}

export interface Comparison {
  title: string;
  rows: ComparedMetric[];
  changes: string[];
}

export interface ComparedMetric {
  label: string;
  pinned: string;
  now: string;
  change: string;
  good: boolean | null;
}

export interface ControlsTraits {
  fields: Field[];
  rev: number;
  message: string;
  failed: boolean;
}

export interface Field {
  name: string;
  label: string;
  group: string;
  tip: string;
  value: Value | null; // null says nothing
  first: boolean; // shown at once, else among the further settings
  options?: Option<Value | null>[]; // without them it is typed
  input?: "number" | "text";
  default?: string; // what holds when nothing is typed
  suggestions?: string[];
  min?: number;
  step?: number | "any";
  narrow?: boolean;
}

export interface HeadlineTraits {
  metrics: Metric[];
  can: Partial<Abilities>;
  facts: string;
  warning: string;
  assumptions: string[];
}

export interface Metric {
  label: string;
  value: string;
  note: string;
  tip: string;
  change: string;
  good: boolean | null;
}

export interface Abilities {
  undo: boolean;
  redo: boolean;
  pin: boolean;
  pinned: boolean;
  stop: boolean;
  progress: number;
}

export interface TabsTraits {
  titles: string[];
  selected: number;
}

export interface WhyTraits {
  why: Explanation | { ladder?: undefined };
}

export interface Explanation {
  ladder: Rung[];
  band: string;
  exposed: Exposed[];
  levers: { label: string; gain: string }[];
  changes: { label: string; gain: string }[];
  searching?: boolean;
  advice?: boolean; // false in a report: nothing can be applied there
}

export interface Rung {
  label: string;
  seconds: number;
  until_s: number;
  ideal: boolean;
  note: string;
}

export interface Exposed {
  label: string;
  seconds: number;
  node: number;
}

// -- the offline report

export interface ReportState {
  views: { timeline: TimelineTraits; topology: TopologyTraits; tree: TreeTraits; why: WhyTraits };
  extra: ReportExtra;
}

export interface ReportExtra {
  parents: number[];
  first_link: [drawn: number, first: number][];
  pattern_ptr: Column;
  pattern_link: Column;
}

// -- what is on the page

interface BokehView {
  remove?(): void;
}

interface Bokeh {
  version: string;
  embed: { embed_item(item: object, target: HTMLElement): Promise<BokehView | BokehView[]> };
  [version: string]: unknown;
}

declare global {
  interface Window {
    proteusProbe?: Record<string, Record<string, unknown>>;
    Bokeh?: Bokeh;
    __proteusBokeh?: Record<string, Promise<Bokeh>>;
  }
}
