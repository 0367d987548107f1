// Joins each view's modules and styles into one ES module and one style sheet.
// Usage: node bundle.js FOLDER

import path from "node:path";
import process from "node:process";
import { build } from "esbuild";

const STATIC = "./proteus_widgets/static";
const ENTRIES = {
  timeline: `${STATIC}/timeline/timeline.js`,
  topology: `${STATIC}/topology/topology.js`,
  tree: `${STATIC}/tree/tree.js`,
  chart: `${STATIC}/panels/chart.js`,
  code: `${STATIC}/panels/code.js`,
  compare: `${STATIC}/panels/compare.js`,
  controls: `${STATIC}/panels/controls.js`,
  headline: `${STATIC}/panels/headline.js`,
  tabs: `${STATIC}/panels/tabs.js`,
  why: `${STATIC}/panels/why.js`,
  report: `${STATIC}/offline/report.js`,
};

const folder = process.argv[2];
if (!folder) throw new Error("bundle.js needs the folder to write to");

await build({
  absWorkingDir: import.meta.dirname, // the paths in the bundles' comments are relative to it
  entryPoints: ENTRIES,
  outdir: path.resolve(folder),
  bundle: true,
  format: "esm",
  charset: "utf8",
  logLevel: "warning",
});
