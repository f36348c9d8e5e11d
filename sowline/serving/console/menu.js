// A button that opens a small sheet of further controls; a click elsewhere, or Escape, closes it.
import { html, useEffect, useRef } from "./lib.js";

export function Menu({ title, children }) {
  const box = useRef();
  useEffect(() => {
    const leave = (event) => {
      if (!box.current.contains(event.target)) box.current.open = false;
    };
    const escape = (event) => {
      if (event.key !== "Escape" || !box.current.open) return;
      box.current.open = false;
      box.current.querySelector("summary").focus();
      event.stopPropagation();
    };
    addEventListener("pointerdown", leave);
    box.current.addEventListener("keydown", escape);
    return () => removeEventListener("pointerdown", leave);
  }, []);
  const chosen = (event) => {
    // What was copied is said on its own button.
    if (event.target.closest("button") && !event.target.closest(".bookmark")) box.current.open = false;
  };
  return html`<details class="menu" ref=${box} onClick=${chosen}><summary>${title}</summary><div class="sheet-of-menu" role="group" aria-label=${title}>${children}</div></details>`;
}
