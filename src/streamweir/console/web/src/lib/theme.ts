// Light, dark, or as the system has it. Charts are drawn on canvas and ask for colours by name.
import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const NAME = "streamweir-theme";
const THEMES: readonly string[] = ["light", "dark"];

function kept(): Theme {
  const found = localStorage.getItem(NAME);
  return found !== null && THEMES.includes(found) ? (found as Theme) : "system";
}

export const theme = signal<Theme>(kept());
const system = matchMedia("(prefers-color-scheme: dark)");
export const isDark = signal(system.matches);

export function applyTheme(): void {
  effect(() => {
    const chosen = theme.value;
    if (chosen === "system") localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, chosen);
    isDark.value = chosen === "system" ? system.matches : chosen === "dark";
    document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
  });
  system.addEventListener("change", () => {
    if (theme.value === "system") {
      isDark.value = system.matches;
      document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
    }
  });
}

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
