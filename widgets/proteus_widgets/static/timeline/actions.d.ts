import type { Viewport } from "./viewport.js";

/** What keys, mouse and toolbar ask of the timeline. */
export interface Actions {
  readonly canvas: HTMLCanvasElement;
  readonly viewport: Viewport;
  move(change: () => void): void;
  scroll(by: number): boolean;
  hover(x: number, y: number): void;
  hold(): void;
  pick(x: number, y: number): void;
  step(by: number): void;
  stepLane(by: number): void;
  focusSelected(): void;
  measure(from: number, to: number): void;
  measureSelected(): void;
  unfoldSelected(): void;
  toggleCritical(): void;
  filter(kind: number): void;
  search(text: string): void;
  focusSearch(): void;
  nextMatch(by: number): void;
  clear(): void;
}
