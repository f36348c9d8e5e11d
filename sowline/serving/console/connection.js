// What the console says of its connection: one chip, how old that is what it shows, and when it tries to connect again.
import { html, useCallback, useEffect, useFollowed, useState } from "./lib.js";
import { said, service } from "./service.js";

const TICK_MS = 250;
const MOMENT_MS = 1000;
const WORDS = { open: ["ok", "connected"], connecting: ["warn", "connecting"], reconnecting: ["bad", "no connection"], closed: ["bad", "not connected"], refused: ["bad", "not logged on"] };

export const timeOfDay = (date) => `${date.toISOString().slice(11, 19)} UTC`;

// The time of day of the newest message of the service, while there is no connection.
export const asOf = () => (service.isLost && service.heardAt ? `as of ${timeOfDay(service.heardAt)}` : undefined);

// The time of day of what is shown now: that of the newest message while there is no connection.
export const nowOf = () => timeOfDay((service.isLost && service.heardAt) || new Date());

// The moment of what is shown of `live`, which goes on while nothing changes; and a function that takes it again at once.
// What is about to be drawn again is not yet of a later moment.
export function useMoment(live, isDue = () => false) {
  const [moment, setMoment] = useState();
  const take = useCallback(() => setMoment(nowOf()), []);
  useEffect(() => {
    take();
    const ticking = setInterval(() => live?.state === "live" && !isDue() && take(), MOMENT_MS);
    return () => clearInterval(ticking);
  }, [live]);
  return [moment, take];
}

// When the next attempt to connect begins, in words.
function nextTry() {
  const seconds = Math.ceil((service.client.retryAt - Date.now()) / 1000);
  return seconds > 0 ? `next try in ${seconds} s` : "trying now";
}

// The client's status, and the number of logons.
export const useService = () => useFollowed(service, "status", () => ({ status: service.client.status, logons: service.logons }));

export function Connection() {
  const { status } = useService();
  const [, draw] = useState(0);
  useEffect(() => {
    if (!service.isLost) return undefined;
    const timer = setInterval(() => draw((number) => number + 1), TICK_MS);
    return () => clearInterval(timer);
  }, [status]);
  const [tone, word] = WORDS[service.refusal ? "refused" : status];
  // What works is not worth a color: the data have a state of their own, such as "live" or "7 s behind".
  if (tone === "ok") return html`<span class="unseen" role="status">${word}</span>`;
  return html`<span class="connection">
    ${service.isLost && (asOf() || service.client.retryAt) && html`<span class="lost">${asOf()}${service.client.closeReason && `: ${service.client.closeReason}`} <span class="muted" role="timer">${nextTry()}</span></span>`}
    <span class="chip ${tone}" role="status" title=${said(service.client.error)?.message}>${word}</span>
  </span>`;
}

// Why nothing can be written, while there is no connection.
export function Offline() {
  useService();
  return service.isLost && html`<p class="notice warn" role="status">There is no connection to the query service. Nothing can be written until it is back.</p>`;
}
