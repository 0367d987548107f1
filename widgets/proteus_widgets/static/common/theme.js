// A canvas does not inherit colours: read JupyterLab's variables when drawing, and redraw when they change.

const FALLBACK = {
  "--jp-layout-color1": "#ffffff",
  "--jp-layout-color2": "#f3f4f6",
  "--jp-ui-font-color1": "#1f2328",
  "--jp-ui-font-color2": "#59636e",
  "--jp-border-color2": "#d8dee4",
  "--jp-brand-color1": "#0072b2",
};

/** @typedef {ReturnType<typeof themeColours>} Theme */

/** @param {HTMLElement} el */
export function themeColours(el) {
  const style = getComputedStyle(el);
  /** @param {keyof typeof FALLBACK} name */
  const read = (name) => style.getPropertyValue(name).trim() || FALLBACK[name];
  return {
    background: read("--jp-layout-color1"),
    band: read("--jp-layout-color2"),
    text: read("--jp-ui-font-color1"),
    faint: read("--jp-ui-font-color2"),
    line: read("--jp-border-color2"),
    brand: read("--jp-brand-color1"),
    family: style.fontFamily || "sans-serif",
  };
}

export const isDark = () => document.body.dataset.jpThemeLight === "false";

// The page is hidden and its variables are old when the attribute changes: call once more when they are in place.
const THEME_LOADED_MS = 300;

/** @param {() => void} callback */
export function onTheme(callback) {
  const observer = new MutationObserver(() => {
    callback();
    setTimeout(callback, THEME_LOADED_MS);
  });
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name"] });
  return () => observer.disconnect();
}
