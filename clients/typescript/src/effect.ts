/** Where the effect of a write is visible: what is shown before that gives way to it there. */

import { layOver, type Positions } from "./bookmark.js";
import { isNewer, type Outcome } from "./writing.js";

/** How long a write is shown at most after its outcome, for views whose bookmark does not come to its effect. */
export const SETTLE_MS = 1000;

const CHANGED = /^(?:applied|deleted)/;

/** Whether views may be sent a change after a write with this outcome. */
export const hasChanged = ({ outcome }: Outcome): boolean => outcome === undefined || CHANGED.test(outcome);

/** Whether the state at a bookmark contains everything before another one. */
export function contains(bookmark: string, other: string): boolean {
  const [held, wanted]: [Positions, Positions] = [new Map(), new Map()];
  layOver(held, bookmark);
  layOver(wanted, other);
  return [...wanted].every(([partition, position]) => {
    const at = held.get(partition);
    return at !== undefined && !isNewer(position, at);
  });
}
