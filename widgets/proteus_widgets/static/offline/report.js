import timeline from "../timeline/timeline.js";
import topology from "../topology/topology.js";
import tree from "../tree/tree.js";
import why from "../panels/why.js";
import "../report.css";
import { Linker } from "./link.js";
import { OfflineModel, restore, unpack } from "./model.js";
/** @import { Message, ReportState } from "../types" */

// Draws a saved report: the views on a stand-in for the kernel.

/** @param {string} id */
function element(id) {
  const there = document.getElementById(id);
  if (!there) throw new Error(`the report has no #${id}`);
  return there;
}

/** @param {string} id */
const text = (id) => element(id).textContent ?? "";

async function start() {
  const light = !matchMedia("(prefers-color-scheme: dark)").matches;
  document.body.dataset.jpThemeLight = String(light);
  const { views, extra } = /** @type {ReportState} */ (restore(JSON.parse(text("state")), await unpack(text("columns"))));
  /** @type {Linker | null} */
  let linker = null;
  /** @param {Message} message */
  const receive = (message) => linker?.receive(message);
  const models = {
    timeline: new OfflineModel(views.timeline, receive),
    topology: new OfflineModel(views.topology, receive),
    tree: new OfflineModel(views.tree, receive),
    why: new OfflineModel(views.why, receive),
  };
  linker = new Linker(models, extra);
  timeline.render({ model: models.timeline, el: element("timeline") });
  topology.render({ model: models.topology, el: element("topology") });
  tree.render({ model: models.tree, el: element("tree") });
  why.render({ model: models.why, el: element("why") });
}

start();
