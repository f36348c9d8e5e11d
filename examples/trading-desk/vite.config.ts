import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  base: "./", // the files may lie in any directory of a web server
  plugins: [react()],
  // The client is linked from this repository, where it has a React of its own for its tests.
  resolve: { dedupe: ["react", "react-dom"] },
  server: { port: 5173, strictPort: true },
});
