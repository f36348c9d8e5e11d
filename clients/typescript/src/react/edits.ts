/** Changes of records that are shown before the service has them. */

import { contains, hasChanged, SETTLE_MS } from "../effect.js";
import { report } from "../emitter.js";
import type { Outcome } from "../writing.js";
import type { SharedView } from "./sharedView.js";


/** A change of one record that is shown before the service has it. */
export interface Edit<T = any> {
  readonly topic: string;
  /** The SOW key of the record. */
  readonly key: string;
  /**
   * Returns the record as it will be; undefined if it will be deleted. It may be called with a record that has the
   * change already: it sets values, and does not add to them. If it throws, the error is reported, and the edit is
   * not shown any longer.
   */
  readonly change: (record: T) => T | undefined;
}

class ShownEdit {
  effect: string | undefined;

  constructor(readonly edit: Edit) {}
}

/** The edits of one mutation, until they are settled. */
export interface Attempt {
  /** Show them until each view has their effect. */
  settle(outcome: Outcome): void;
  /** Show them no longer. */
  undo(): void;
}

/** The edits of a client that are not settled. */
export class Edits {
  readonly #shown = new Set<ShownEdit>();
  readonly #views: () => Iterable<SharedView<any>>;

  constructor(views: () => Iterable<SharedView<any>>) {
    this.#views = views;
  }

  /** Show edits in all views, at once. */
  show(edits: readonly Edit[]): Attempt {
    const shown = edits.map((edit) => new ShownEdit(edit));
    for (const each of shown) this.#shown.add(each);
    this.#refresh(shown);
    const undo = (): void => {
      for (const each of shown) this.#shown.delete(each);
      this.#refresh(shown);
    };
    const settle = (outcome: Outcome): void => {
      if (!hasChanged(outcome)) {
        undo();
        return;
      }
      for (const each of shown) each.effect = outcome.effect;
      this.#refresh(shown);
      setTimeout(undo, SETTLE_MS);
    };
    return { settle, undo };
  }

  /** The keys of a topic that have edits. */
  *keys(topic: string): Generator<string> {
    for (const { edit } of this.#shown) if (edit.topic === topic) yield edit.key;
  }

  /** Return the record with the edits that the view does not have yet. */
  apply<T>(topic: string, key: string, record: T, bookmark: string): T | undefined {
    let edited: T | undefined = record;
    for (const shown of this.#shown) {
      if (edited === undefined) break;
      const { edit, effect } = shown;
      if (edit.topic !== topic || edit.key !== key) continue;
      if (effect !== undefined && contains(bookmark, effect)) continue;
      try {
        edited = edit.change(edited) as T | undefined;
      } catch (error) {
        // It keeps no other record from its change ("an edit that throws").
        this.#shown.delete(shown);
        report(error);
      }
    }
    return edited;
  }

  #refresh(edits: readonly ShownEdit[]): void {
    for (const view of this.#views()) {
      view.refresh(edits.filter(({ edit }) => edit.topic === view.topic).map(({ edit }) => edit.key));
    }
  }
}
