// Formats texts for display: numbers, durations, and JSON with every digit.
import { html } from "./lib.js";
import { outcomeWords } from "./words.js";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const count = (value) => (value === null || value === undefined ? "–" : whole.format(value));
export const rate = (value) => (value === undefined ? "–" : value > 0 && value < 10 ? tenths.format(value) : whole.format(value));
export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

const parts = new Intl.NumberFormat("en", { maximumFractionDigits: 4 });
const small = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

// A measure, in full: thousands have commas, unlike in the values that records have. A whole number has all its digits; a mean has as many as anybody reads.
export function figure(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return (Math.abs(value) < 1 ? small : parts).format(value);
}

const DIGITS_MAX = 12;
const FRACTION = 4;

// Whether a number has more digits than anybody wrote, such as a mean; and the first ones of it. The mouse shows all.
export const isLong = (raw) => typeof raw === "number" && !Number.isInteger(raw) && String(raw).replace(/e.*|\D/g, "").replace(/^0+/, "").length > DIGITS_MAX;
const [fours, twos] = [FRACTION, FRACTION / 2].map((digits) => new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
// The same of means that stand one below the other: with as many decimals each, and fewer where one of them has tens.
export function roundedAlike(raw, most) {
  const decimals = most >= 10 ? FRACTION / 2 : FRACTION;
  return raw === 0 || Math.abs(raw) >= 10 ** (1 - decimals) ? (decimals === FRACTION ? fours : twos).format(raw) : rounded(raw);
}
export const rounded = (raw) => String(Number(Math.abs(raw) < 1 ? raw.toPrecision(FRACTION) : raw.toFixed(FRACTION)));

// How to write measures that stand side by side where there is room for a few digits only: with the same number of decimals.
export function briefAlike(values) {
  const most = values.reduce((found, value) => Math.max(found, Math.abs(value ?? 0)), 0);
  const decimals = values.every((value) => value === null || Number.isInteger(value)) || most >= 1000 ? 0 : most >= 10 ? 1 : 2;
  if (most < 0.1) return brief;
  const alike = new Intl.NumberFormat("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals, signDisplay: "negative" });
  return (value) => alike.format(value);
}

const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

// A measure where there is room for a few digits only; a whole number has all of its own.
export const brief = (value) => (Number.isInteger(value) ? whole : short).format(value);

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

// The same to the second, which is what a row of them is read for. The mouse shows all of it.
export const Time = ({ text }) => html`<time title=${text}>${second(Date.parse(text))}</time>`;

// A time in ms since 1970, with its date and zone.
export const instant = (ms) => clock(new Date(ms).toISOString()).replace(".000Z", "Z");

// The same to the second.
export const second = (ms) => instant(Math.floor(ms / 1000) * 1000);

// How the viewer writes times in groups and charts; those of single records are written as `instant` does.
export const TIMES = { timeZone: "UTC", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };

// How the viewer writes numbers: all digits, as they are in the record.
export const DIGITS = { useGrouping: false, maximumSignificantDigits: 21 };

const CONTROL = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/;
const SOH = "\x01";
const HEX_COLUMNS = 16;

// A value of Kafka as it can be shown: a text, or, if it has bytes that no font has, these in hexadecimal beside it.
export function shownValue(value, charsMax) {
  const [, base64] = /^base64:([A-Za-z0-9+/]*=*)$/.exec(value) ?? [];
  const isFix = base64 === undefined && value.includes("=") && !CONTROL.test(value.replaceAll(SOH, ""));
  if (base64 === undefined && (isFix || !CONTROL.test(value))) {
    const text = value.slice(0, charsMax).replaceAll(SOH, "|") + (value.length > charsMax ? "…" : "");
    return { text, note: value.includes(SOH) ? "| stands for the byte 01" : "", isText: true };
  }
  const all = base64 === undefined ? new TextEncoder().encode(value) : Uint8Array.from(atob(base64), (char) => char.codePointAt(0));
  const bytesShown = all.slice(0, charsMax / 4);
  const lines = [];
  for (let at = 0; at < bytesShown.length; at += HEX_COLUMNS) {
    const part = [...bytesShown.slice(at, at + HEX_COLUMNS)];
    const hex = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = part.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(4, "0")}  ${hex.padEnd(3 * HEX_COLUMNS - 1)}  ${text}`);
  }
  return { text: lines.join("\n") + (all.length > bytesShown.length ? "\n…" : ""), note: "bytes in hexadecimal", isText: false };
}

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

// What a dictionary adds to a token of JSON: the tag of a name, the meaning of a value of the field that was named last.
function noted(tokens, dictionary) {
  let field;
  return tokens.map(([kind, token]) => {
    if (kind !== "name" && kind !== "string") return [kind, token];
    const text = JSON.parse(token);
    if (kind === "name") field = text;
    return [kind, token, kind === "name" ? dictionary.tagOf(text) : dictionary.meaningOf(field ?? "", text)];
  });
}

export const Json = ({ text, label, dictionary }) => html`
  <pre class="json" tabindex="0" role="region" aria-label=${label}>${(dictionary ? noted(laidOut(text), dictionary) : laidOut(text)).map(([kind, token, note]) =>
    kind === "space" || kind === "mark" ? token : html`<span class=${kind}>${token}</span>${note && html` <span class="note">${note}</span>`}`)}</pre>
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
  return html`<p class="notice ok" role="status"><strong title=${outcome.outcome}>${outcomeWords(outcome.outcome)}</strong> ${outcome.more} <code>${outcome.bookmark}</code></p>`;
}
