// The query of a view as a program: Python, JavaScript, curl and kcat.
import { html, useState } from "./lib.js";
import { keyPaths } from "./fields.js";

const python = JSON.stringify;
const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

const given = (request) => Object.entries(request).filter(([, value]) => value !== undefined && value !== "" && !(Array.isArray(value) && !value.length));

// Programs that read what a view shows. `request` has the fields of a query: filter, condition, options, order_by, top_n, sow_keys.
export function programs(topic, request, url, kafka) {
  const fields = given(request);
  const method = topic.sow ? "sow_and_subscribe" : "subscribe";
  const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
  const reading = fields.map(([name, value]) => `, ${camel(name)}: ${JSON.stringify(value)}`).join("").slice(2);
  const [path] = keyPaths(topic);
  return {
    Python: `from sowline import Client

with Client(${python(url)}) as client:
    for message in client.${method}(${[python(topic.name), ...fields.map(([name, value]) => `${name}=${python(value)}`)].join(", ")}):
        print(message.command, message.sow_key, message.data)
`,
    JavaScript: `import { connect } from "sowline";

const client = connect(${JSON.stringify(url)});
for await (const message of client.${camel(method)}(${JSON.stringify(topic.name)}, {${reading && ` ${reading} `}})) {
  console.log(message.command, message.sowKey, message.data);
}
`,
    curl: topic.sow
      ? `curl -s ${shell(`${url}/v1/topics/${encodeURIComponent(topic.name)}/sow`)} -d ${shell(JSON.stringify(Object.fromEntries(fields)))}\n`
      : `curl -N ${shell(`${url}/v1/topics/${encodeURIComponent(topic.name)}/subscribe?command=subscribe`)}\n`,
    kcat: `# every command of the topic, as Kafka has it; ${path ? `the key is the text of ${path}` : "the filter is not applied"}
kcat -b ${kafka} -t ${shell(topic.name)} -C -o end -f '%p@%o %k %s\\n'
`,
  };
}

export function CopyAs({ topic, request, kafka }) {
  const [done, setDone] = useState("");
  const url = new URL("..", document.baseURI).href.replace(/\/$/, "");
  const copy = async (event) => {
    const chosen = event.target.value;
    event.target.value = "";
    if (!chosen) return;
    await navigator.clipboard?.writeText(programs(topic, request, url, kafka)[chosen]);
    setDone(chosen);
    setTimeout(() => setDone(""), 2000);
  };
  return html`<label class="copy-as"><span class="unseen">Copy as</span><select value="" onChange=${copy}>
    <option value="">${done ? `${done} copied` : "Copy as…"}</option>
    ${["Python", "JavaScript", "curl", "kcat"].map((name) => html`<option value=${name}>${name}</option>`)}
  </select></label>`;
}
