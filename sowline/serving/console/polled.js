// Answers of the HTTP API that are asked for again and again, each with its age.
import { useEffect, useState } from "./lib.js";
import { timeOfDay } from "./connection.js";
import { note } from "./rates.js";
import { askJson, service } from "./service.js";

// An answer that is not followed by another one for so long may not hold any more.
const LATE_MS = 3000;

// Asks again while the page is visible. Returns the newest answer, why there is no newer one, and the time of that answer,
// in words, once it may not hold any more. Several paths are asked at the same instant: what they answer fits together.
export function usePolled(paths, everyMs) {
  const [answer, setAnswer] = useState();
  const [error, setError] = useState();
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    let timer;
    let closed = false;
    let isAsking = false;
    const look = async () => {
      if (isAsking || document.hidden) return;
      isAsking = true;
      clearTimeout(timer);
      const late = setTimeout(() => setLate(true), LATE_MS);
      try {
        const body = await (Array.isArray(paths) ? Promise.all(paths.map((path) => askJson(path))) : askJson(paths));
        if (closed) return;
        const found = { body, at: performance.now(), time: new Date() };
        if (paths === "topics") note(found);
        setAnswer(found);
        setError(undefined);
        setLate(false);
      } catch (problem) {
        if (closed) return;
        setLate(true);
        const isFinal = problem.reason === "not entitled";
        // A lost connection is said once, at the top. A refusal that comes before the connection is there is not repeated:
        // without it the page would load for ever (test_who_has_to_log_on).
        setError(service.isLost && !isFinal ? undefined : problem);
        if (isFinal) return;
      } finally {
        clearTimeout(late);
        isAsking = false;
      }
      timer = setTimeout(look, everyMs);
    };
    look();
    document.addEventListener("visibilitychange", look);
    return () => {
      closed = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [String(paths), everyMs, service.logons]);
  return [answer, error, answer && (isLate || service.isLost) ? timeOfDay(answer.time) : undefined];
}
