// The console: the current page, the connection, keys, and the shared parts of all views.
import { html, render, useEffect, useFollowed, useRef, useState } from "./lib.js";
import { Connection, useService } from "./connection.js";
import { askJson, said, service } from "./service.js";
import { Topics } from "./topics.js";
import { Clients } from "./clients.js";
import { Grid } from "./grid.js";
import { TopicPage } from "./topic.js";
import { go, useRoute, writeRoute } from "./route.js";
import { Words } from "./words.js";

const KEYS = [
  ["?", "this list"],
  ["g t", "topics"],
  ["g c", "connections"],
  ["/", "the filter"],
  ["t", "grid or plain table"],
  ["Alt click", "a cell: only records with this value"],
  ["w", "write to the topic"],
  ["d", "light or dark"],
  ["Esc", "close the record or the dialog"],
];
const THEMES = { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" };

const keysAreOn = () => localStorage.getItem("sowline.keys") !== "off";

function isTyping({ target, ctrlKey, metaKey, altKey }) {
  return ctrlKey || metaKey || altKey || target.closest?.("input, textarea, select, [contenteditable], perspective-viewer, dialog");
}

function useKeys(help) {
  useEffect(() => {
    let first = "";
    const actions = {
      "?": help,
      "g t": () => go({ view: "topics" }),
      "g c": () => go({ view: "connections" }),
      "/": () => document.getElementById("filter")?.focus(),
      d: () => theme.choose(theme.shown() === "dark" ? "light" : "dark"),
    };
    const press = (event) => {
      if (event.defaultPrevented) return;
      if (event.key === "Escape" && !event.target.closest?.("dialog")) dispatchEvent(new CustomEvent("shortcut", { detail: "Escape" }));
      if (isTyping(event) || !keysAreOn()) return;
      const keys = first === "g" ? `g ${event.key}` : event.key;
      first = event.key;
      if (actions[keys]) {
        event.preventDefault();
        actions[keys]();
      } else {
        dispatchEvent(new CustomEvent("shortcut", { detail: keys }));
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

function Dialog({ title, onClose, children }) {
  const dialog = useRef();
  useEffect(() => {
    dialog.current.showModal();
  }, []);
  return html`<dialog ref=${dialog} aria-label=${title} onClose=${onClose}>
    <header><h2>${title}</h2><button type="button" class="quiet" onClick=${() => dialog.current.close()} aria-label="close">✕</button></header>
    ${children}
  </dialog>`;
}

function Help({ onClose }) {
  const [on, setOn] = useState(keysAreOn());
  const toggle = () => {
    localStorage.setItem("sowline.keys", on ? "off" : "on");
    setOn(!on);
  };
  return html`<${Dialog} title="Help" onClose=${onClose}>
    <dl class="help">${KEYS.map(([keys, meaning]) => html`<div><dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${meaning}</dd></div>`)}</dl>
    <label class="check"><input type="checkbox" checked=${on} onChange=${toggle} /> Single keys are shortcuts</label>
    <${Words} />
  <//>`;
}

function TokenDialog({ why, onClose }) {
  const [text, setText] = useState("");
  const submit = (event) => {
    event.preventDefault();
    service.logOn(text.trim());
    onClose();
  };
  return html`<${Dialog} title="Log on" onClose=${onClose}>
    <form onSubmit=${submit}>
      <p class="notice">${why}</p>
      <label class="field">Token <input type="password" class="mono" autocomplete="off" autofocus value=${text} onInput=${(event) => setText(event.target.value)} /></label>
      <p class="muted">It is kept until this tab is closed.</p>
      <footer><button type="submit" class="primary">Log on</button></footer>
    </form>
  <//>`;
}

// The page or the records of one topic: its definition is requested when it opens, and after each reconnection.
function OneTopic({ route, status }) {
  const [topics, setTopics] = useState();
  const [error, setError] = useState();
  useEffect(() => {
    let closed = false;
    const look = () =>
      askJson("topics").then(
        ({ topics: served, kafka }) => {
          const found = served.map((one) => ({ ...one, kafka }));
          if (closed) return;
          setError(undefined);
          setTopics((before) => (before && JSON.stringify(before.map(({ name }) => name)) === JSON.stringify(found.map(({ name }) => name)) ? before : found));
        },
        (problem) => !closed && !service.isLost && setError(problem),
      );
    look();
    return () => {
      closed = true;
    };
  }, [status, service.logons]);
  if (!topics) return error ? html`<p class="notice bad" role="alert">${error.message}</p>` : html`<p class="muted" role="status">Loading the topics…</p>`;
  const topic = topics.find(({ name }) => name === route.topic);
  if (!topic) return html`<p class="notice bad" role="alert">There is no topic <code>${route.topic}</code>. <a href="#/topics">The topics</a> lists all topics.</p>`;
  const View = route.view === "topic" ? TopicPage : Grid;
  return html`<${View} key=${topic.name} topic=${topic} route=${route} />`;
}

function Link({ view, now, children }) {
  return html`<a href=${writeRoute({ view })} aria-current=${now === view ? "page" : undefined}>${children}</a>`;
}

function ThemeSwitch() {
  const chosen = useFollowed(window, "theme", theme.chosen);
  return html`<label class="theme"><span class="unseen">Colors</span><select value=${chosen} onChange=${(event) => theme.choose(event.target.value)}>
    ${Object.entries(THEMES).map(([name, title]) => html`<option value=${name}>${title}</option>`)}</select></label>`;
}

function Console() {
  const route = useRoute();
  const { status, logons } = useService();
  const [shown, setShown] = useState();
  const main = useRef();
  const view = useRef(route.view);
  useKeys(() => setShown("help"));
  useEffect(() => {
    if (service.refusal) setShown({ why: service.refusal.message });
  }, [status, logons]);
  const titles = { topics: "Topics", connections: "Connections", grid: route.topic, topic: route.topic };
  useEffect(() => {
    document.title = `${titles[route.view] ?? "Not found"} – Sowline`;
    if (view.current !== route.view) main.current.focus();
    view.current = route.view;
  }, [route.view, route.topic]);
  const error = said(service.client.error);
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>Skip to the content</a>
    <header class="bar">
      <a class="brand" href="#/topics"><img src="icon.svg" alt="" width="24" height="24" /><span>Sowline</span></a>
      <nav aria-label="views"><${Link} view="topics" now=${route.view}>Topics<//><${Link} view="connections" now=${route.view}>Connections<//></nav>
      <span class="grow"></span>
      <${Connection} />
      <${ThemeSwitch} />
      <button type="button" class="quiet" onClick=${() => setShown("help")} title="keyboard shortcuts, and what the words mean (?)">Help</button>
    </header>
    <main id="main" class=${service.isLost ? "stale" : ""} tabindex="-1" ref=${main}>
      ${error && !service.refusal && html`<p class="notice bad" role="alert"><strong>${error.reason}</strong> ${error.message}</p>`}
      ${route.view === "topics" && html`<${Topics} />`}
      ${route.view === "connections" && html`<${Clients} />`}
      ${(route.view === "grid" || route.view === "topic") && html`<${OneTopic} route=${route} status=${status} />`}
      ${!(route.view in titles) && html`<p class="notice bad" role="alert">There is nothing at this address. <a href="#/topics">Topics</a></p>`}
    </main>
    ${shown === "help" && html`<${Help} onClose=${() => setShown(undefined)} />`}
    ${shown?.why && html`<${TokenDialog} why=${shown.why} onClose=${() => setShown(undefined)} />`}
  `;
}

render(html`<${Console} />`, document.getElementById("console"));
