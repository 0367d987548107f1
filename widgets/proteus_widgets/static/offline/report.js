import timeline from "../timeline/timeline.js";
import topology from "../topology/topology.js";
import tree from "../tree/tree.js";
import why from "../panels/why.js";
import "../report.css";
import { Linker } from "./link.js";
import { OfflineModel, restore, unpack } from "./model.js";

// Draws a saved report: the views on a stand-in for the kernel.

const VIEWS = { timeline, topology, tree, why };

const text = (id) => document.getElementById(id).textContent;

async function start() {
  const light = !matchMedia("(prefers-color-scheme: dark)").matches;
  document.body.dataset.jpThemeLight = String(light);
  const state = restore(JSON.parse(text("state")), await unpack(text("columns")));
  const models = {};
  let linker = null;
  for (const name of Object.keys(VIEWS)) models[name] = new OfflineModel(state.views[name], (message) => linker?.receive(message));
  linker = new Linker(models, state.extra);
  for (const [name, view] of Object.entries(VIEWS)) view.render({ model: models[name], el: document.getElementById(name) });
}

start();
