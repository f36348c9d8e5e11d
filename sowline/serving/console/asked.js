// What a grid asks the service for: read from its address, and followed as live records.
import { useEffect, useRef, useState } from "./lib.js";
import { sampleOf } from "./columns.js";
import { keyOf } from "./groups.js";
import { liveOf } from "./live.js";
import { service } from "./service.js";

export const LIMIT = 100_000;
export const CONFLATION = "250ms";
const NEWS_MS = 150;
const SAMPLE_MS = 1000;
const SAMPLE_MS_MAX = 30_000;

export const askedOf = ({ filter = "", condition = "", options = "", conflation = CONFLATION, order = "", limit }) => ({
  filter,
  condition,
  order,
  // A query of one instant takes none.
  conflation: conflation === "none" ? [] : [`conflation=${conflation}`],
  options: options ? [options] : [],
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

// The columns of the first records that match, by which charts and pivots are chosen; undefined until they are known.
export function useSample(topic, route, isWanted) {
  const [sample, setSample] = useState();
  const { filter, condition, options } = route;
  useEffect(() => {
    if (!isWanted) return undefined;
    let closed = false;
    let timer;
    let pause = SAMPLE_MS;
    const take = (columns) => !closed && setSample({ topic: topic.name, columns });
    // A refusal is shown where the records are, which are refused for the same reason.
    const look = () => sampleOf(topic, askedOf(route)).catch(() => []).then((columns) => {
      take(columns);
      // Without records there are no fields to group by: the first ones bring them. The pauses grow, because a filter
      // that nothing matches may be a scan of all records.
      if (columns.length || closed) return;
      timer = setTimeout(look, pause);
      pause = Math.min(2 * pause, SAMPLE_MS_MAX);
    });
    look();
    return () => {
      closed = true;
      clearTimeout(timer);
    };
  }, [service.logons, topic.name, isWanted, filter, condition, options]);
  return sample?.topic === topic.name ? sample.columns : undefined;
}

const leave = (live) => live && !live.stoppedAt && live.close();

// The records for the filter and options in the address, or the groups of them, if there are any; nothing yet while
// `groups` is null: they depend on the fields of a sample. If what is asked for is refused, what is shown stays. Returns
// also the refusal, whether the records are still to come, and the groups that were asked for.
export function useLive(topic, route, groups) {
  const [live, setLive] = useState();
  const [refused, setRefused] = useState();
  const [isLoading, setLoading] = useState(true);
  // What the service has refused to group: there are too many groups, for instance.
  const [ungrouped, setUngrouped] = useState();
  const held = useRef();
  const { filter, condition, options, conflation, order, limit } = route;
  const grouping = JSON.stringify([topic.name, filter, condition, options, keyOf(groups)]);
  const wanted = groups && ungrouped === grouping ? undefined : groups;
  useEffect(() => {
    setLoading(true);
    if (wanted === null) return undefined;
    const asked = { ...askedOf(route), groups: wanted };
    const next = liveOf(topic, asked);
    const take = () => {
      if (held.current === next) return;
      leave(held.current);
      held.current = next;
      setLive(next);
      setRefused(undefined);
      setLoading(false);
    };
    const look = () => {
      if (next.state !== "failed") return;
      if (wanted && held.current !== next) {
        setUngrouped(grouping);
        return;
      }
      // What was asked for before is no answer: changes of it that go on would look like one.
      if (held.current && held.current !== next && !held.current.stoppedAt) held.current.stop();
      const { reason, message } = next.error;
      setRefused({ reason, message, asked });
      setLoading(false);
    };
    next.addEventListener("accepted", take);
    next.addEventListener("state", look);
    look();
    return () => {
      next.removeEventListener("accepted", take);
      next.removeEventListener("state", look);
      if (held.current !== next) next.close();
    };
  }, [service.logons, topic.name, filter, condition, options, conflation, order, limit, keyOf(wanted)]);
  useEffect(() => () => leave(held.current), []);
  return [live, refused, isLoading, wanted];
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
    for (const name of ["state", "came", "put", "gone"]) live.addEventListener(name, due);
    due();
    return () => {
      clearTimeout(timer);
      for (const name of ["state", "came", "put", "gone"]) live.removeEventListener(name, due);
    };
  }, [live]);
}
