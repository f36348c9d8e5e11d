import { useState, type FormEvent } from "react";
import { useMutation, useRecord, type Edit } from "sowline/react";

import { limitDelta, TOPIC, type Order } from "./orders.js";

interface NewLimit {
  readonly id: number;
  readonly limit: number;
}

/** Sets the limit of an order, under the condition that it is not filled when the write is applied. */
export function Editor({ sowKey }: { sowKey: string }) {
  const { record: order } = useRecord<Order>(TOPIC, sowKey);
  const [text, setText] = useState("");
  const { mutate, status, outcome, error } = useMutation(
    (client, { id, limit }: NewLimit) => client.delta(TOPIC, String(id), limitDelta(limit)),
    {
      optimistic: ({ limit }): Edit<Order> => ({
        topic: TOPIC,
        key: sowKey,
        change: (shown) => ({ ...shown, limit }),
      }),
    },
  );
  if (order === undefined) return <p>The order is gone.</p>;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void mutate({ id: order.id, limit: Number(text) });
  };
  return (
    <form onSubmit={submit} aria-label="Order">
      <h2>
        Order {order.id} <output>{order.status}</output>
      </h2>
      <p>
        Limit {order.limit.toFixed(2)}, price {order.price.toFixed(2)}
      </p>
      <label>
        New limit{" "}
        <input type="number" step="0.01" required value={text} onChange={({ target }) => setText(target.value)} />
      </label>{" "}
      <button>Set</button>
      <p role="status">{error?.message ?? outcome?.outcome ?? status}</p>
    </form>
  );
}
