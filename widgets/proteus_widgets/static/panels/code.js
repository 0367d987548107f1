import "../base.css";
import "../panels.css";
import { h, prepare, watch } from "../common/dom.js";
/** @import { CodeTraits, RenderProps } from "../types" */

/**
 * Both texts, each with a button that copies it.
 * @param {RenderProps<CodeTraits>} props
 */
function render({ model, el }) {
  prepare(el, "code");
  /**
   * @param {string} title
   * @param {keyof CodeTraits} name
   */
  const block = (title, name) => {
    const text = h("pre", { tabindex: 0, class: "pt-source", role: "region", "aria-label": `${title} of the strategy` });
    const said = h("span", { class: "pt-faint", role: "status" });
    const select = () => getSelection()?.selectAllChildren(text);
    // Without a secure page there is no clipboard to write to: the text is selected then, ready for the user's own copy.
    const copy = async () => {
      try {
        await navigator.clipboard.writeText(text.textContent);
        said.textContent = "copied";
      } catch {
        select();
        said.textContent = "selected: copy it with the keyboard";
      }
    };
    const load = () => {
      text.textContent = model.get(name);
      said.textContent = "";
    };
    const button = h("button", { type: "button", class: "pt-button", "aria-label": `Copy the ${title}`, onclick: copy }, "Copy");
    el.append(h("section", { class: "pt-code-block" }, h("div", { class: "pt-code-head" }, h("span", { class: "pt-title" }, title), said, button), text));
    load();
    return [name, load];
  };
  return watch(model, Object.fromEntries([block("Python", "python"), block("YAML", "yaml")]));
}

export default { render };
