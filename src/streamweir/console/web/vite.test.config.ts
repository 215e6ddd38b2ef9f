// The tests of the pure modules, bundled for Node's own runner: `node --test build/console-tests/all.mjs`.
import { defineConfig } from "vite";

export default defineConfig({
  build: {
    ssr: "test/all.ts",
    outDir: "../../../../build/console-tests",
    emptyOutDir: true,
    minify: false,
    sourcemap: "inline",
    target: "es2022",
    rolldownOptions: { output: { entryFileNames: "all.mjs" } },
  },
  ssr: { noExternal: true },
});
