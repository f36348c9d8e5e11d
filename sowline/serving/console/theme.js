// Loaded before anything is drawn, to avoid a flash of the other theme. "auto" follows the system.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => localStorage.getItem("sowline.theme") ?? "auto";
  const shown = () => (chosen() === "auto" ? (system.matches ? "dark" : "light") : chosen());
  const apply = () => {
    document.documentElement.dataset.theme = shown();
    dispatchEvent(new CustomEvent("theme", { detail: shown() }));
  };
  system.addEventListener("change", apply);
  window.theme = {
    chosen,
    shown,
    choose(name) {
      localStorage.setItem("sowline.theme", name);
      apply();
    },
  };
  apply();
})();
