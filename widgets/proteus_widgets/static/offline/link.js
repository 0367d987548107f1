import { column } from "../common/columns.js";
import { seconds } from "../common/format.js";
/** @import { Message, ReportExtra, Select, SpanPlace, TimelineTraits, TopologyTraits, TreeTraits } from "../types" */
/** @import { OfflineModel } from "./model.js" */
/** @typedef {{ timeline: OfflineModel<TimelineTraits>, topology: OfflineModel<TopologyTraits>, tree: OfflineModel<TreeTraits> }} Models */

/**
 * What stands out: see Lit in proteus_widgets.selection.
 * @typedef {object} Lit
 * @property {number} [span]
 * @property {number} [node]
 * @property {number[]} [others]
 * @property {number} [link]
 * @property {Set<number>} [links]
 * @property {Uint8Array<ArrayBuffer>} [nodes]
 * @property {Uint8Array<ArrayBuffer>} [patterns]
 */

// The same links between the views as proteus_widgets.selection makes in a live session.

export class Linker {
  /**
   * @param {Models} models
   * @param {ReportExtra} extra
   */
  constructor(models, extra) {
    this.models = models;
    this.parents = extra.parents;
    this.firstLink = new Map(extra.first_link); // drawn link -> first link of its class
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
    else this.selectNodes([id, ...(message.others ?? [])]);
  }

  /** @param {Iterable<number>} patterns */
  linksOf(patterns) {
    /** @type {Set<number>} */
    const found = new Set();
    for (const pattern of patterns) if (pattern >= 0) for (let i = this.pointer[pattern]; i < this.pointer[pattern + 1]; i++) found.add(this.links[i]);
    return found;
  }

  /** @param {number} link */
  selectLink(link) {
    const first = this.firstLink.get(link) ?? link;
    const patterns = new Uint8Array(this.pointer.length - 1);
    for (let pattern = 0; pattern < patterns.length; pattern++) for (let i = this.pointer[pattern]; i < this.pointer[pattern + 1]; i++) if (this.links[i] === first) patterns[pattern] = 1;
    this.show({ link, links: new Set([first]), patterns });
  }

  /** @param {number[]} picked */
  selectNodes(picked) {
    const nodes = new Uint8Array(this.parents.length);
    this.parents.forEach((parent, row) => { nodes[row] = picked.includes(row) || (parent >= 0 && nodes[parent]) ? 1 : 0; });
    /** @type {Set<number>} */
    const patterns = new Set();
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
    const text = [this.data.names[this.name[span]], kinds[this.kind[span]].label, `${row.label} ${row.stream}`, `starts ${seconds(this.start[span])}`, `lasts ${seconds(this.duration[span])}`].join(" · ");
    return { id: span, lane, start_s: this.start[span], duration_s: this.duration[span], text };
  }

  /** @param {Lit} lit */
  show({ span = -1, node = -1, others = [], link = -1, links = new Set(), nodes, patterns }) {
    /** @param {Uint8Array<ArrayBuffer> | undefined} mask */
    const view = (mask) => mask && new DataView(mask.buffer);
    const { timeline, topology, tree } = this.models;
    timeline.set("lit", { nodes: view(nodes), patterns: view(patterns) });
    timeline.set("span", this.describe(span));
    topology.set("selected", link);
    topology.set("lit", [...this.firstLink].filter(([, first]) => links.has(first)).map(([own]) => own));
    tree.set("others", others);
    tree.set("selected", node);
  }
}
