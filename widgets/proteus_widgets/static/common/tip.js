import { h } from "./dom.js";

/**
 * One small box of text lines near the pointer.
 * @param {HTMLElement} parent
 */
export function createTip(parent) {
  const box = h("div", { class: "pt-tip", hidden: true });
  parent.append(box);
  return {
    /**
     * @param {(string | false | null | undefined)[]} lines
     * @param {number} x
     * @param {number} y
     */
    show(lines, x, y) {
      const shown = /** @type {string[]} */ (lines.filter(Boolean));
      box.replaceChildren(...shown.map((line, i) => { const row = h(i ? "div" : "strong"); row.textContent = line; return row; }));
      box.hidden = false;
      const room = parent.clientWidth - box.offsetWidth - 4;
      const below = y + 16 + box.offsetHeight <= parent.clientHeight;
      box.style.left = `${Math.max(0, Math.min(x + 14, room))}px`;
      box.style.top = `${below ? y + 16 : Math.max(0, y - box.offsetHeight - 10)}px`;
    },
    hide() { box.hidden = true; },
  };
}
