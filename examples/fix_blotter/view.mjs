// The blotter in the TypeScript client: prints its rows once all fills are there.
import { connect } from "../../sowline/serving/console/built/sowline.js";

const [url, filled] = process.argv.slice(2);
const client = connect(url);
const view = client.view("blotter", { orderBy: "/ClOrdID" });
await view.ready;
await view.waitFor(() => view.snapshot().reduce((sum, { record }) => sum + record.filled, 0) === Number(filled));
for (const { record } of view.snapshot()) console.log(JSON.stringify(record));
client.close();
