/** A queue of what belongs together: what is added can be taken once it is finished. */
export class Queue<T> {
  #items: T[] = [];
  #head = 0;
  #end = 0;

  get length(): number {
    return this.#end - this.#head;
  }

  get first(): T | undefined {
    return this.#head < this.#end ? this.#items[this.#head] : undefined;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Add an item before those that are not finished; it can be taken. */
  insert(item: T): void {
    this.#items.splice(this.#end++, 0, item);
  }

  /** Let all that was added be taken. */
  finish(): void {
    this.#end = this.#items.length;
  }

  shift(): T | undefined {
    const item = this.first;
    if (item === undefined) return undefined;
    this.#head++;
    // Free what was taken, but not so often that copying the rest takes longer than the taking.
    const left = this.#items.length - this.#head;
    if (left === 0 || (this.#head >= 1024 && this.#head >= left)) {
      this.#items = this.#items.slice(this.#head);
      this.#end -= this.#head;
      this.#head = 0;
    }
    return item;
  }

  /** Drop what can't be taken yet. */
  dropUnfinished(): void {
    this.#items.length = this.#end;
  }

  /** Replace all items. */
  reset(items: T[] = []): void {
    this.#items = items;
    this.#head = 0;
    this.finish();
  }

  [Symbol.iterator](): Iterator<T> {
    return this.#items.slice(this.#head, this.#end).values();
  }
}
