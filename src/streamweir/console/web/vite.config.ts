// The page is built into the Python package, which serves it from /console. Nothing is inlined and nothing is fetched
// from elsewhere: the content security policy allows files of this server alone.
import { defineConfig } from "vite";

export default defineConfig({
  base: "/console/",
  build: {
    outDir: "../static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
  },
});
