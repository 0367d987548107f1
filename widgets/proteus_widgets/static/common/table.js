import { h } from "./dom.js";

/**
 * A table with a caption; a column without a title has no header cell.
 * @param {string} caption
 * @param {string[]} head
 * @param {HTMLTableRowElement[]} rows
 */
export function table(caption, head, rows) {
  const titles = head.map((text) => (text ? h("th", { scope: "col" }, text) : h("td")));
  return h("table", { class: "pt-table" }, h("caption", {}, caption), h("thead", {}, h("tr", {}, ...titles)), h("tbody", {}, ...rows));
}
