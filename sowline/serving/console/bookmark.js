// Bookmarks: the bookmark of a message names one partition, and is merged into the whole.

export class Bookmark {
  #logs = new Map();

  lay(text) {
    for (const topic of text.split(";")) {
      const [, log, parts] = /^(.*):([^:]*)$/s.exec(topic) ?? [];
      if (log === undefined) continue;
      const positions = this.#logs.get(log) ?? new Map();
      this.#logs.set(log, positions);
      for (const part of parts.split(",")) {
        const at = part.indexOf("@");
        positions.set(Number(part.slice(0, at)), part.slice(at + 1));
      }
    }
  }

  replace(text) {
    this.#logs.clear();
    this.lay(text);
  }

  get isEmpty() {
    return this.#logs.size === 0;
  }

  toString() {
    const logs = [...this.#logs].map(([log, positions]) => {
      const parts = [...positions].sort(([one], [other]) => one - other);
      return `${log}:${parts.map(([number, position]) => `${number}@${position}`).join(",")}`;
    });
    return logs.join(";");
  }
}
