/** The service and its topic, the records, and what is asked of them. */

const address = new URLSearchParams(location.search);

export const SERVICE = address.get("service") ?? "http://127.0.0.1:8080";
export const TOPIC = address.get("topic") ?? "orders";

export interface Order {
  readonly id: number;
  readonly symbol: string;
  readonly side: "buy" | "sell";
  readonly status: "open" | "working" | "filled";
  readonly qty: number;
  readonly filled: number;
  readonly limit: number;
  readonly price: number;
  /** The worth of the order: `qty` times `price`. */
  readonly worth: number;
}

export const SYMBOLS = ["AAPL", "AMZN", "GOOG", "IBM", "META", "MSFT", "NVDA", "TSLA"] as const;
export const STATUSES = ["open", "working", "filled"] as const;

export interface Choice {
  readonly symbol: string;
  readonly status: string;
}

/** Return the filter for a choice; what is empty is not asked. */
export const filterOf = (choice: Choice): string =>
  Object.entries(choice)
    .filter(([, value]) => value !== "")
    .map(([name, value]) => `/${name} = '${value}'`)
    .join(" AND ");

/** Return the delta that sets the limit of an order, unless it is filled by then. */
export const limitDelta = (limit: number): string =>
  `if {..,"status":in("open","working")} then {..,"limit":${JSON.stringify(limit)}} end`;
