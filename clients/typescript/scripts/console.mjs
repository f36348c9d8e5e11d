// Bundles the client for the web console, which is served as plain files: writes the file that is committed, or with
// `--check` fails if the sources make another one.
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const BUNDLE = new URL("../../../sowline/serving/console/built/sowline.js", import.meta.url);
const HEADER = "// The client of clients/typescript, bundled by `npm run console` there. Do not edit.";

const { outputFiles } = await build({
  stdin: { contents: 'export { connect, JsonText, literal, SowlineError } from "./index.js"; export { parse, stringify } from "./exact.js";', resolveDir: "src", loader: "ts" },
  banner: { js: HEADER },
  bundle: true,
  minify: true,
  charset: "utf8",
  format: "esm",
  target: "es2022",
  write: false,
});
const made = outputFiles[0].text;
if (!process.argv.includes("--check")) {
  await writeFile(BUNDLE, made);
} else if ((await readFile(BUNDLE, "utf8")) !== made) {
  console.error(`${fileURLToPath(BUNDLE)} is not what the sources make: run "npm run console" in clients/typescript`);
  process.exitCode = 1;
}
