// The connected clients, their requests, and how far behind each is.
import { html, useRef, useState } from "./lib.js";
import { service } from "./service.js";
import { usePolled } from "./topics.js";
import { bytes, clock, count, plural, rate, span } from "./text.js";

const EVERY_MS = 2000;
const TONES = { live: "ok", paused: "muted", paced: "muted", beginning: "muted", group: "muted", "catching up": "warn" };

const agentName = (agent) => /(Firefox|Edg|Chrome|Safari)\/\d+/.exec(agent)?.[0].replace("/", " ").replace("Edg", "Edge") ?? (agent || "–");

function Subscription({ one }) {
  return html`
    <tr>
      <td><code>${one.sub_id}</code></td>
      <td>${one.topic}</td>
      <td class="query"><span class="muted">${one.command}</span>
        ${one.filter && html` <code>${one.filter}</code>`}${one.condition && html` <code>${one.condition}</code>`}
        ${one.options && html` <span class="muted">${one.options}</span>`}</td>
      <td><span class="chip ${TONES[one.state]}">${one.state}</span></td>
      <td class="number">${count(one.behind_positions)}</td>
      <td class="number">${one.behind_seconds ? span(one.behind_seconds) : "–"}</td>
    </tr>
  `;
}

function Client({ one, rate: messages, onDisconnect }) {
  const more = one.subscriptions_count - one.subscriptions.length;
  return html`
    <article class="card client" aria-label="client ${one.id}">
      <header>
        <h2>${one.user || agentName(one.agent)}</h2>
        <dl>
          <div><dt>Address</dt><dd><code>${one.address}</code></dd></div>
          <div><dt>Program</dt><dd title=${one.agent}>${agentName(one.agent)}</dd></div>
          <div><dt>Since</dt><dd>${clock(one.since)}</dd></div>
          <div><dt>Messages</dt><dd>${messages === undefined ? "–" : `${rate(messages)}/s`}</dd></div>
          <div><dt>Unsent</dt><dd>${bytes(one.unsent_bytes)} of ${bytes(one.unsent_bytes_max)}</dd></div>
        </dl>
        <button type="button" class="danger-quiet" onClick=${() => onDisconnect(one)} aria-label="disconnect client ${one.id}">Disconnect</button>
      </header>
      ${one.queries_count > 0 && html`<p><strong>${plural(one.queries_count, "query", "queries")} running:</strong> ${one.queries.map((query) => html`<span class="running">${query.command} ${query.topic} <code>${query.filter}</code></span> `)}</p>`}
      ${one.subscriptions.length === 0
        ? html`<p class="muted">No subscriptions.</p>`
        : html`<div class="scroll" tabindex="0" role="region" aria-label="subscriptions of client ${one.id}"><table class="list dense">
            <thead><tr><th scope="col">Subscription</th><th scope="col">Topic</th><th scope="col">Asked for</th><th scope="col">State</th>
              <th scope="col" class="number" title="Log records that were not sent to it yet">Behind</th><th scope="col" class="number" title="How long it has been behind">For</th></tr></thead>
            <tbody>${one.subscriptions.map((subscription) => html`<${Subscription} key=${subscription.sub_id} one=${subscription} />`)}</tbody>
          </table></div>`}
      ${more > 0 && html`<p class="notice">and ${plural(more, "more subscription")}, which are not listed</p>`}
    </article>
  `;
}

// Messages a second that each client was sent between the last two answers.
function useMessageRates(answer) {
  const before = useRef();
  const rates = useRef(new Map());
  if (answer && answer !== before.current) {
    const seconds = before.current && (answer.at - before.current.at) / 1000;
    const sent = new Map(before.current?.body.clients.map((one) => [one.id, one.sent]));
    rates.current = new Map(answer.body.clients.filter(({ id }) => seconds && sent.has(id)).map((one) => [one.id, (one.sent - sent.get(one.id)) / seconds]));
    before.current = answer;
  }
  return rates.current;
}

export function Clients() {
  const [answer, error] = usePolled("clients", EVERY_MS);
  const rates = useMessageRates(answer);
  const [refused, setRefused] = useState();
  const disconnect = async (one) => {
    if (!confirm(`Disconnect client ${one.id} (${one.user || agentName(one.agent)})? Most programs reconnect by themselves.`)) return;
    await service.request(`clients/${one.id}`, { method: "DELETE" }).then(() => setRefused(undefined), setRefused);
  };
  const { connected, clients } = answer?.body ?? { connected: 0, clients: [] };
  return html`
    <section aria-labelledby="clients-title">
      <div class="title"><h1 id="clients-title">Connections</h1>
        ${answer && html`<p class="muted">${plural(connected, "client is", "clients are")} connected to this query service</p>`}</div>
      ${error && html`<p class="notice bad" role="alert"><strong>${error.reason}</strong> ${error.message}</p>`}
      ${refused && html`<p class="notice bad" role="alert"><strong>${refused.reason}</strong> ${refused.message}</p>`}
      ${!answer && !error && html`<p class="muted" role="status">Loading the connections…</p>`}
      ${clients.map((one) => html`<${Client} key=${one.id} one=${one} rate=${rates.get(one.id)} onDisconnect=${disconnect} />`)}
      ${connected > clients.length && html`<p class="notice">Only the ${count(clients.length)} oldest of ${count(connected)} are listed.</p>`}
    </section>
  `;
}
