import "./lib/language";
import { render } from "preact";
import { App } from "./app";
import { listen } from "./lib/route";
import { applyTheme } from "./lib/theme";
import "./style/parts.css";
import "./style/pages.css";

applyTheme();
listen();
const root = document.getElementById("app");
if (root) render(<App />, root);
