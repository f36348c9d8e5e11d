// What a grid asks the service for: read from its address, and followed as live records.
import { useEffect, useRef, useState } from "./lib.js";
import { liveOf } from "./live.js";
import { service } from "./service.js";

export const LIMIT = 100_000;
export const CONFLATION = "250ms";
const NEWS_MS = 150;

export const askedOf = ({ filter = "", condition = "", options = "", conflation = CONFLATION, order = "", limit }) => ({
  filter,
  condition,
  order,
  options: [...(conflation === "none" ? [] : [`conflation=${conflation}`]), ...(options ? [options] : [])],
  limit: Number(limit) || LIMIT,
});

// The query of a view, as a program would ask it.
export const copied = ({ filter, condition, options, order, limit }, topic) => ({
  filter,
  condition,
  options: [...(topic.sow ? ["oof"] : []), ...(options ? [options] : [])].join(","),
  order_by: order,
  top_n: topic.sow && limit ? Number(limit) : undefined,
});

// The records for the filter and options in the address. If these are refused, what is shown stays. Returns also whether
// the records are still to come.
export function useLive(topic, route) {
  const [live, setLive] = useState();
  const [refused, setRefused] = useState();
  const [isLoading, setLoading] = useState(true);
  const held = useRef();
  const { filter, condition, options, conflation, order, limit } = route;
  useEffect(() => {
    const asked = askedOf(route);
    const next = liveOf(topic, asked);
    const take = () => {
      if (held.current === next) return;
      held.current?.close();
      held.current = next;
      setLive(next);
      setRefused(undefined);
      setLoading(false);
    };
    const look = () => {
      if (next.state !== "failed") return;
      const { reason, message } = next.error;
      setRefused({ reason, message, asked });
      setLoading(false);
    };
    next.addEventListener("accepted", take);
    next.addEventListener("state", look);
    setLoading(true);
    look();
    return () => {
      next.removeEventListener("accepted", take);
      next.removeEventListener("state", look);
      if (held.current !== next) next.close();
    };
  }, [service.logons, topic.name, filter, condition, options, conflation, order, limit]);
  useEffect(() => () => held.current?.close(), []);
  return [live, refused, isLoading];
}

// Draws again after events of the records, a limited number of times per second.
export function useNews(live) {
  const [, draw] = useState(0);
  useEffect(() => {
    if (!live) return undefined;
    let timer;
    const due = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        draw((number) => number + 1);
      }, NEWS_MS);
    };
    for (const name of ["state", "put", "gone"]) live.addEventListener(name, due);
    due();
    return () => {
      clearTimeout(timer);
      for (const name of ["state", "put", "gone"]) live.removeEventListener(name, due);
    };
  }, [live]);
}
