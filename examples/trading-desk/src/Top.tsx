import {
  createColumnHelper,
  flexRender,
  getCoreRowModel,
  getSortedRowModel,
  useReactTable,
  type SortingState,
} from "@tanstack/react-table";
import { useMemo, useState } from "react";
import type { Row } from "sowline";
import { useView } from "sowline/react";

import { TOPIC, type Order } from "./orders.js";

const column = createColumnHelper<Row<Order>>();
const COLUMNS = [
  column.accessor("record.id", { header: "Order", cell: (cell) => <b>{cell.getValue()}</b> }),
  column.accessor("record.symbol", { header: "Symbol" }),
  column.accessor("record.worth", { header: "Worth", cell: (cell) => Math.round(cell.getValue()).toLocaleString() }),
];

/** The 50 orders that are worth most, in a TanStack table. The service decides which they are; the user sorts them. */
export function Top() {
  const { rows, status } = useView<Order>(TOPIC, { orderBy: "/worth DESC", topN: 50 });
  const [sorting, setSorting] = useState<SortingState>([]);
  const table = useReactTable({
    // The same array while nothing has changed: TanStack Table makes its rows anew for another one.
    data: useMemo(() => [...rows], [rows]),
    columns: COLUMNS,
    state: { sorting },
    onSortingChange: setSorting,
    getRowId: ({ key }) => key,
    getCoreRowModel: getCoreRowModel(),
    getSortedRowModel: getSortedRowModel(),
  });
  return (
    <section aria-label="Top 50">
      <h2>
        Top 50 <output>{status}</output>
      </h2>
      <table>
        <thead>
          <tr>
            {table.getFlatHeaders().map((header) => (
              <th key={header.id}>
                <button onClick={header.column.getToggleSortingHandler()}>
                  {flexRender(header.column.columnDef.header, header.getContext())}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.getRowModel().rows.map((row) => (
            <tr key={row.id}>
              {row.getVisibleCells().map((cell) => (
                <td key={cell.id}>{flexRender(cell.column.columnDef.cell, cell.getContext())}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
