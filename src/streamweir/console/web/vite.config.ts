// The page is built into the Python package, which serves it from /console. Nothing is inlined and nothing is fetched
// from elsewhere: the content security policy allows files of this server alone. The licences of the packages that are
// bundled ask for their text beside every copy.
import { defineConfig } from "vite";

export default defineConfig({
  base: "/console/",
  build: {
    outDir: "../static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    license: { fileName: "licenses.txt" },
    modulePreload: { polyfill: false },
    target: "es2022",
  },
});
