/** Collects calls until the next frame, so that components render at most once a frame, however much changes. */

const FRAME_MS = 16;
/** A hidden page has no frames; without any call, what has changed would pile up. */
const HIDDEN_MS = 1000;

export class FrameTimer {
  readonly #calls = new Set<() => void>();

  /** Call `call` in the next frame, once. */
  add(call: () => void): void {
    this.#calls.add(call);
    if (this.#calls.size === 1) this.#wait();
  }

  #wait(): void {
    const hasFrames = typeof requestAnimationFrame === "function";
    const frame = hasFrames ? requestAnimationFrame(() => run()) : undefined;
    const timer = setTimeout(() => run(), hasFrames ? HIDDEN_MS : FRAME_MS);
    const run = (): void => {
      clearTimeout(timer);
      if (frame !== undefined) cancelAnimationFrame(frame);
      const calls = [...this.#calls];
      this.#calls.clear();
      for (const call of calls) call();
    };
  }
}
