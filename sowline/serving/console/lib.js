// The libraries that every part of the console uses.
import { h, render, Fragment } from "./vendor/preact-11.2.0/dist/preact.mjs";
import { useEffect, useState } from "./vendor/preact-11.2.0/hooks/dist/hooks.mjs";
import htm from "./vendor/htm-3.1.1/dist/htm.module.js";

export { render, Fragment };
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useReducer, useRef, useState } from "./vendor/preact-11.2.0/hooks/dist/hooks.mjs";
export const html = htm.bind(h);

// What `read` returns of a target, read again at each of its events of a name.
export function useFollowed(target, name, read) {
  const [value, setValue] = useState(read);
  useEffect(() => {
    const update = () => setValue(read());
    target.addEventListener(name, update);
    update();
    return () => target.removeEventListener(name, update);
  }, []);
  return value;
}
