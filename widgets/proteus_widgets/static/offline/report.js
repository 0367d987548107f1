import { Linker } from "./link.js";
import { OfflineModel, restore, unpack } from "./model.js";

// Draws a saved report: the views' own modules on a stand-in for the kernel.

const text = (id) => document.getElementById(id).textContent;

async function start() {
  const light = !matchMedia("(prefers-color-scheme: dark)").matches;
  document.body.dataset.jpThemeLight = String(light);
  const state = restore(JSON.parse(text("state")), await unpack(text("columns")));
  const models = {};
  let linker = null;
  for (const name of Object.keys(state.views)) models[name] = new OfflineModel(state.views[name], (message) => linker?.receive(message));
  linker = new Linker(models, state.extra);
  for (const [name, model] of Object.entries(models)) {
    const module = await import(`data:text/javascript;base64,${text(`module-${name}`)}`);
    module.default.render({ model, el: document.getElementById(name) });
  }
}

start();
