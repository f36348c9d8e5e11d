import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useRef } from "react";
import { useKeys, useRow, useSharedView, type SharedView } from "sowline/react";

import { TOPIC, type Order } from "./orders.js";

const ROW_PIXELS = 24;

interface BlotterProps {
  filter: string;
  onChoose: (sowKey: string) => void;
}

/** All orders that match. Only the rows in the window are rendered, each when its own record changes. */
export const Blotter = memo(({ filter, onChoose }: BlotterProps) => {
  const view = useSharedView<Order>(TOPIC, { filter, orderBy: "/id" }, { suspense: true });
  return <Table view={view} onChoose={onChoose} />;
});

interface TableProps {
  view: SharedView<Order>;
  onChoose: (sowKey: string) => void;
}

const Table = memo(({ view, onChoose }: TableProps) => {
  const keys = useKeys(view);
  const window = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: keys.length,
    getScrollElement: () => window.current,
    estimateSize: () => ROW_PIXELS,
    getItemKey: (index) => keys[index]!,
    overscan: 5,
  });
  return (
    <section aria-label="Orders">
      <h2>
        Orders <output>{keys.length.toLocaleString()}</output>
      </h2>
      <div className="window" ref={window}>
        <div style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map(({ key, index, start }) => (
            <Row key={key} view={view} sowKey={keys[index]!} top={start} onChoose={onChoose} />
          ))}
        </div>
      </div>
    </section>
  );
});

interface RowProps extends TableProps {
  sowKey: string;
  top: number;
}

const Row = memo(({ view, sowKey, top, onChoose }: RowProps) => {
  const order = useRow(view, sowKey);
  if (order === undefined) return null;
  const { id, symbol, side, status, qty, filled, limit, price } = order;
  return (
    <button className={`row ${side}`} style={{ top, height: ROW_PIXELS }} onClick={() => onChoose(sowKey)}>
      <b>{id}</b>
      <span>{symbol}</span>
      <span>{side}</span>
      <span>{status}</span>
      <i>{qty}</i>
      <i>{filled}</i>
      <i>{limit.toFixed(2)}</i>
      <i>{price.toFixed(2)}</i>
    </button>
  );
});
