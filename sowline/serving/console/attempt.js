// A form's attempts to write: whether one runs, and the outcome or the error of the last one.
import { useState } from "./lib.js";

// Returns what the form shows, and `attempt`, which runs some work; what fails after `closed` was aborted is not shown.
export function useAttempt(closed) {
  const [outcome, setOutcome] = useState();
  const [error, setError] = useState();
  const [isBusy, setBusy] = useState(false);
  const forget = () => {
    setError(undefined);
    setOutcome(undefined);
  };
  const attempt = async (work) => {
    setBusy(true);
    forget();
    try {
      await work();
    } catch (problem) {
      if (!closed.aborted) setError(problem);
    } finally {
      setBusy(false);
    }
  };
  return { outcome, error, isBusy, attempt, forget, setOutcome };
}
