/** A page for React and AG Grid, in Node. It is imported before them. */

import { Window } from "happy-dom";

const window = new Window({ url: "http://page.example/" });
const { document, navigator, getComputedStyle, HTMLElement, Node, ResizeObserver, MutationObserver } = window;
const names = {
  window,
  document,
  navigator,
  getComputedStyle: getComputedStyle.bind(window),
  ...{ HTMLElement, Node, ResizeObserver, MutationObserver },
  requestAnimationFrame: setImmediate,
  cancelAnimationFrame: clearImmediate,
  IS_REACT_ACT_ENVIRONMENT: true,
};
// An assignment would fail: newer versions of Node have a navigator.
for (const [name, value] of Object.entries(names)) Object.defineProperty(globalThis, name, { value, configurable: true });

/** Return a new element of the page. */
export function element(): HTMLElement {
  const made = document.createElement("div");
  document.body.append(made);
  return made as unknown as HTMLElement;
}
