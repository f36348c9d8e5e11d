/** Why something failed: a `reason` for programs, from docs/reasons.md, and a `message` for people. */
export class SowlineError extends Error {
  override readonly name = "SowlineError";
  readonly reason: string;

  constructor(reason: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}
