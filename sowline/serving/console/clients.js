// The connected clients, their requests, and how far behind each is.
import { html, useRef, useState } from "./lib.js";
import { service } from "./service.js";
import { usePolled } from "./polled.js";
import { OVER, Rates, meanOf } from "./rates.js";
import { Time, bytes, count, plural, rate, span } from "./text.js";
import { Term, commandWords, labeled } from "./words.js";

const EVERY_MS = 2000;
const TONES = { live: "ok", paused: "muted", paced: "muted", beginning: "muted", group: "muted", "catching up": "warn" };

const agentName = (agent) => /(Firefox|Edg|Chrome|Safari)\/\d+/.exec(agent)?.[0].replace("/", " ").replace("Edg", "Edge") ?? (agent || "–");

// A state of a subscription, in words.
const STATES = { group: "sending records", paced: "at a set pace" };

// For how long a subscription has not been live. What a live one is behind is sent at the end of its interval.
function behindFor({ behind_positions: positions, behind_seconds: seconds }) {
  if (seconds) return seconds < 1 ? "under 1 s" : span(seconds);
  return positions ? "about to be sent" : "–";
}

function Subscription({ one, seen }) {
  return html`
    <tr>
      <th scope="row" data-label="Subscription"><code>${one.sub_id}</code></th>
      <td data-label="Topic">${one.topic}</td>
      <td class="query" data-label="Asked for">${commandWords(one.command)}
        ${one.filter && html` <code>${one.filter}</code>`}${one.condition && html` <code>${one.condition}</code>`}
        <details class="request"><summary>Request</summary><code>${one.command}</code>${one.options && html`, options <code>${one.options}</code>`}</details></td>
      <td data-label="State"><span class="chip ${seen ? "" : TONES[one.state]}">${seen ? "unknown" : (STATES[one.state] ?? one.state)}</span></td>
      <td class="number" ...${labeled("Behind (records)")}>${count(one.behind_positions)}</td>
      <td class="number" ...${labeled("Behind for")}>${behindFor(one)}</td>
    </tr>
  `;
}

function Client({ one, rate: messages, seen, onDisconnect }) {
  const program = agentName(one.agent);
  const more = one.subscriptions_count - one.subscriptions.length;
  return html`
    <article class="card client" aria-label="client ${one.id}">
      <header>
        <h2 title=${one.agent}>${one.user || program}</h2>
        <dl>
          <div><dt>Address</dt><dd><code>${one.address}</code></dd></div>
          ${one.user && html`<div><dt>Program</dt><dd title=${one.agent}>${program}</dd></div>`}
          <div><dt>Connected since</dt><dd><${Time} text=${one.since} /></dd></div>
          <div><dt><${Term} word="Messages ${OVER}" /></dt><dd>${rate(messages)}${messages !== undefined && "/s"}</dd></div>
          <div><dt><${Term} word="Unsent" /></dt><dd>${bytes(one.unsent_bytes)} of ${bytes(one.unsent_bytes_max)}</dd></div>
        </dl>
        <button type="button" class="danger-quiet" disabled=${Boolean(seen)} onClick=${() => onDisconnect(one)} aria-label="disconnect client ${one.id}">Disconnect</button>
      </header>
      ${one.queries_count > 0 && html`<p><strong>${plural(one.queries_count, "query", "queries")} running:</strong> ${one.queries.map((query) => html`<span class="running">${query.command} ${query.topic} <code>${query.filter}</code></span> `)}</p>`}
      ${one.subscriptions.length === 0
        ? html`<p class="muted">No subscriptions.</p>`
        : html`<div class="scroll" tabindex="0" role="region" aria-label="subscriptions of client ${one.id}"><table class="list dense folding subscriptions">
            <thead><tr><th scope="col">Subscription</th><th scope="col">Topic</th><th scope="col">Asked for</th><th scope="col">State</th>
              <th scope="col" class="number"><${Term} word="Behind (records)" /></th><th scope="col" class="number"><${Term} word="Behind for" /></th></tr></thead>
            <tbody>${one.subscriptions.map((subscription) => html`<${Subscription} key=${subscription.sub_id} one=${subscription} seen=${seen} />`)}</tbody>
          </table></div>`}
      ${more > 0 && html`<p class="notice">and ${plural(more, "more subscription")}, which are not listed</p>`}
    </article>
  `;
}

// Messages a second that each client was sent, by its id.
function useMessageRates(answer) {
  const before = useRef();
  const rates = useRef(new Map());
  if (answer && answer !== before.current) {
    before.current = answer;
    rates.current = new Map(answer.body.clients.map(({ id }) => [id, rates.current.get(id) ?? new Rates()]));
    for (const { id, sent } of answer.body.clients) rates.current.get(id).look(sent, answer.at);
  }
  return new Map([...rates.current].map(([id, { shown }]) => [id, meanOf(shown, answer.at)]));
}

export function Clients() {
  const [answer, error, seen] = usePolled("clients", EVERY_MS);
  const rates = useMessageRates(answer);
  const [refused, setRefused] = useState();
  const disconnect = async (one) => {
    if (!confirm(`Disconnect client ${one.id} (${one.user || agentName(one.agent)})? Most programs reconnect by themselves.`)) return;
    await service.request(`clients/${one.id}`, { method: "DELETE" }).then(() => setRefused(undefined), setRefused);
  };
  const { connected, clients } = answer?.body ?? { connected: 0, clients: [] };
  return html`
    <section class=${seen ? "old" : ""} aria-labelledby="clients-title">
      <div class="title"><h1 id="clients-title">Connections</h1>
        ${answer && html`<p class="muted">${seen
          ? html`${plural(connected, "client was", "clients were")} connected to this query service <strong>as of ${seen}</strong>`
          : `${plural(connected, "client is", "clients are")} connected to this query service`}</p>`}</div>
      ${error && html`<p class="notice bad" role="alert"><strong>${error.reason}</strong> ${error.message}</p>`}
      ${refused && html`<p class="notice bad" role="alert"><strong>${refused.reason}</strong> ${refused.message}</p>`}
      ${!answer && !error && html`<p class="muted" role="status">Loading the connections…</p>`}
      ${clients.map((one) => html`<${Client} key=${one.id} one=${one} rate=${rates.get(one.id)} seen=${seen} onDisconnect=${disconnect} />`)}
      ${connected > clients.length && html`<p class="notice">Only the ${count(clients.length)} oldest of ${count(connected)} are listed.</p>`}
    </section>
  `;
}
