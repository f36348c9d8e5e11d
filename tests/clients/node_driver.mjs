// The driver in Node: commands in, answers out, a line each; the first one says that it reads. The argument is the
// directory of the package.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

import { drive } from "./driver.mjs";

const directory = pathToFileURL(`${process.argv[2]}/`);
const { WebSocket } = createRequire(directory)("ws");
const answer = await drive(new URL("dist/", directory), WebSocket);
process.stdout.write('{"id": -1}\n');

for await (const command of createInterface({ input: process.stdin })) {
  void answer(command).then((line) => process.stdout.write(`${line}\n`));
}
