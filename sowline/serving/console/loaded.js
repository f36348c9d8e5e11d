// The large libraries of the console: loaded once, for all who need them, and again where they could not be fetched.

const AGAIN_MS = 2_000;

// Returns a function whose calls share one run of `load`. A run that failed is not kept: without that, a page that lost
// its service for a moment would never show a grid (test_a_grid_whose_engine_comes_later).
export function once(load) {
  let loading;
  return () => {
    loading ??= load().catch((error) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
}

// Returns what `load` loads, or undefined once `closed` is aborted. Until then it tries again, and calls `failed` with
// each error.
export async function untilLoaded(load, failed, closed) {
  while (!closed.aborted) {
    try {
      return await load();
    } catch (error) {
      console.error(error);
      failed(error);
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }
  return undefined;
}
