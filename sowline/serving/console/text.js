// Formats texts for display: numbers, durations, and JSON with every digit.
import { html } from "./lib.js";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const count = (value) => (value === null || value === undefined ? "–" : whole.format(value));
export const rate = (value) => (value === undefined ? "–" : value > 0 && value < 10 ? tenths.format(value) : whole.format(value));
export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

const parts = new Intl.NumberFormat("en", { maximumFractionDigits: 4 });
const small = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

// A measure, in full: a whole number has all its digits; a mean has as many as anybody reads.
export function figure(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return (Math.abs(value) < 1 ? small : parts).format(value);
}

export function bytes(value) {
  if (value < 1024) return `${count(value)} B`;
  const unit = Math.min(4, Math.floor(Math.log2(value) / 10));
  return `${tenths.format(value / 1024 ** unit)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return "now";
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} days`;
}

// A time of the service, which is in UTC.
export const clock = (text) => (text ? `${text.slice(0, 10)} ${text.slice(11, 23).replace("Z", "")}Z` : "–");

// A time in ms since 1970, with its date and zone.
export const instant = (ms) => clock(new Date(ms).toISOString()).replace(".000Z", "Z");

// How the viewer writes times in groups and charts; those of single records are written as `instant` does.
export const TIMES = { timeZone: "UTC", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };

// How the viewer writes numbers: all digits, as they are in the record.
export const DIGITS = { useGrouping: false, maximumSignificantDigits: 21 };

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)|([{}[\],])|\s+/g;

// Indents JSON text token by token. Numbers are not parsed, so they keep every digit.
export function laidOut(text) {
  const found = [];
  let depth = 0;
  const line = () => found.push(["space", `\n${"  ".repeat(depth)}`]);
  let before = "";
  for (const [token, string, colon, number, word, mark] of text.matchAll(TOKEN)) {
    if (!token.trim()) continue;
    if (mark === "}" || mark === "]") {
      depth -= 1;
      if (before !== "{" && before !== "[") line();
    } else if (before === "{" || before === "[" || before === ",") {
      line();
    }
    if (string && colon) found.push(["name", string], ["mark", ": "]);
    else found.push([string ? "string" : number ? "number" : word ? "word" : "mark", token]);
    if (mark === "{" || mark === "[") depth += 1;
    before = mark ?? "";
  }
  return found;
}

export const pretty = (text) => laidOut(text).map(([, token]) => token).join("");

export const Json = ({ text, label }) => html`
  <pre class="json" tabindex="0" role="region" aria-label=${label}>${laidOut(text).map(([kind, token]) => (kind === "space" || kind === "mark" ? token : html`<span class=${kind}>${token}</span>`))}</pre>
`;

const EFFECT_MAX = 40;

// The fields that a write has changed, with the values before and after.
export function Effect({ fields }) {
  if (!fields.length) return html`<p class="muted">nothing changed</p>`;
  return html`<ul class="effect">${fields.slice(0, EFFECT_MAX).map(({ path, old, now, was, is }) => html`
    <li><code>${path}</code> ${was && html`<del>${String(old)}</del>`} ${is && html`<ins>${String(now)}</ins>`}</li>`)}
    ${fields.length > EFFECT_MAX && html`<li class="muted">and ${plural(fields.length - EFFECT_MAX, "more field")}</li>`}</ul>`;
}

// The text with a mark under the mistake, if the error names its column.
export function Mistake({ text, error }) {
  if (!error) return null;
  const column = /at column (\d+)/.exec(error.message)?.[1];
  const at = Number(column);
  return html`
    <div class="mistake" role="alert">
      ${column !== undefined && text && html`<pre class="pointer" aria-hidden="true">${text}${"\n"}${" ".repeat(Math.max(0, [...text].slice(0, at - 1).length))}<span class="caret" data-column=${at}>▲</span></pre>`}
      <p><strong>${error.reason}</strong> ${error.message}</p>
    </div>
  `;
}

export function Outcome({ outcome }) {
  if (!outcome) return null;
  return html`<p class="notice ok" role="status"><strong>${outcome.outcome}</strong> ${outcome.more} <code>${outcome.bookmark}</code></p>`;
}
