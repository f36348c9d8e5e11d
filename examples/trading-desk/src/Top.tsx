import { memo } from "react";
import { useView } from "sowline/react";

import { TOPIC, type Order } from "./orders.js";

/** The 50 orders that are worth most. The service keeps the page; what moves comes as a change. */
export function Top() {
  const { rows, status } = useView<Order>(TOPIC, { orderBy: "/worth DESC", topN: 50 });
  return (
    <section aria-label="Top 50">
      <h2>
        Top 50 <output>{status}</output>
      </h2>
      <ol>
        {rows.map(({ key, record }) => (
          <Line key={key} order={record} />
        ))}
      </ol>
    </section>
  );
}

const Line = memo(({ order: { id, symbol, worth } }: { order: Order }) => (
  <li>
    <b>{id}</b> <span>{symbol}</span> <i>{Math.round(worth).toLocaleString()}</i>
  </li>
));
