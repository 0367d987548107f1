import { taken } from "../common/dom.js";
/** @import { Actions } from "./actions" */

/**
 * Keys and mouse as in Perfetto: W S zoom, A D pan, ctrl+wheel zoom, drag pan, shift+drag measure.
 * A plain wheel scrolls the rows and then the notebook, never the time.
 * @param {HTMLCanvasElement} canvas
 * @param {Actions} view
 */
export function listen(canvas, view) {
  const { viewport } = view;
  /** @type {{ x: number, y: number, from: number, to: number, measure: boolean, moved: boolean } | null} */
  let drag = null;

  /** @type {Record<string, () => void>} */
  const keys = {
    w: () => view.move(() => viewport.zoom(1 / 1.3)),
    s: () => view.move(() => viewport.zoom(1.3)),
    a: () => view.move(() => viewport.pan(-0.15)),
    d: () => view.move(() => viewport.pan(0.15)),
    f: () => view.focusSelected(),
    0: () => view.move(() => viewport.fit()),
    home: () => view.move(() => viewport.fit()),
    m: () => view.measureSelected(),
    c: () => view.toggleCritical(),
    u: () => view.unfoldSelected(),
    t: () => view.hold(),
    n: () => view.nextMatch(1),
    p: () => view.nextMatch(-1),
    "/": () => view.focusSearch(),
    arrowright: () => view.step(1),
    arrowleft: () => view.step(-1),
    arrowdown: () => view.stepLane(1),
    arrowup: () => view.stepLane(-1),
    escape: () => view.clear(),
  };

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = keys[event.key.toLowerCase()];
    if (!action) return;
    action();
    taken(event);
  });

  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) view.move(() => viewport.zoom(event.deltaY > 0 ? 1.18 : 1 / 1.18, event.offsetX));
    else if (event.shiftKey) view.move(() => viewport.pan((event.deltaY || event.deltaX) / 2000));
    else if (!view.scroll(event.deltaY)) return;
    event.preventDefault();
  }, { passive: false });

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.focus();
    drag = { x: event.offsetX, y: event.offsetY, from: viewport.from, to: viewport.to, measure: event.shiftKey, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return view.hover(event.offsetX, event.offsetY);
    drag.moved ||= Math.abs(event.offsetX - drag.x) > 3 || Math.abs(event.offsetY - drag.y) > 3;
    if (!drag.moved) return;
    if (drag.measure) view.measure(viewport.time(drag.x), viewport.time(event.offsetX));
    else {
      const by = ((event.offsetX - drag.x) / (viewport.width - viewport.left)) * (drag.to - drag.from);
      const [from, to] = [drag.from - by, drag.to - by];
      view.move(() => viewport.set(from, to));
      view.scroll(drag.y - event.offsetY);
      drag.y = event.offsetY;
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) view.pick(event.offsetX, event.offsetY);
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => view.hover(-1, -1));
  canvas.addEventListener("dblclick", () => view.focusSelected());
}
