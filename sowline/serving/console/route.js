// The page of the console and its options, kept in the fragment of the URL, `#/grid/flights?filter=…`, so that a link opens it.
import { useEffect, useState } from "./lib.js";

export function readRoute(fragment = location.hash) {
  const [path, query = ""] = fragment.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [view, ...rest] = path.split("/");
  return { view: view || "topics", topic: decodeURIComponent(rest.join("/")), ...Object.fromEntries(new URLSearchParams(query)) };
}

export function writeRoute({ view, topic = "", ...more }) {
  const given = Object.entries(more).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given).toString();
  const path = topic ? `${view}/${encodeURIComponent(topic)}` : view;
  return `#/${path}${query && `?${query}`}`;
}

// Opens a page; `quietly` adds no step to the browser's history.
export function go(route, { quietly = false } = {}) {
  const fragment = writeRoute(route);
  if (fragment === location.hash) return;
  if (quietly) history.replaceState(null, "", fragment);
  else history.pushState(null, "", fragment);
  dispatchEvent(new Event("route"));
}

export function useRoute() {
  const [route, setRoute] = useState(readRoute());
  useEffect(() => {
    const update = () => setRoute(readRoute());
    for (const name of ["route", "popstate", "hashchange"]) addEventListener(name, update);
    return () => {
      for (const name of ["route", "popstate", "hashchange"]) removeEventListener(name, update);
    };
  }, []);
  return route;
}
