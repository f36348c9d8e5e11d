// Prints what an import of the package weighs, minified and gzipped, and fails above the limit. The modules that the
// client loads later are not in it.
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const BYTES_MAX = 13_700;
const LATER = ["./exact.js", "./key.js", "./requests.js"];

const options = { bundle: true, minify: true, format: "esm", target: "es2022", write: false, external: LATER };
const { outputFiles } = await build({ ...options, entryPoints: ["dist/index.js"] });
const bytes = gzipSync(outputFiles[0].contents, { level: 9 }).length;
console.log(`the package: ${bytes} bytes gzipped, at most ${BYTES_MAX}`);
process.exitCode = bytes > BYTES_MAX ? 1 : 0;
