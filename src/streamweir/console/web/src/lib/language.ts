// The charts make a number format of the browser's language while they are loaded. Chromium in an environment
// without one (LANG=C) reports "en-US@posix", which is no language tag: the format throws, and the page stays empty.
// So this is imported before everything else.

export function isLanguageTag(tag: string): boolean {
  try {
    return Intl.getCanonicalLocales(tag).length === 1;
  } catch {
    return false;
  }
}

if (typeof navigator !== "undefined" && !isLanguageTag(navigator.language)) {
  Object.defineProperty(navigator, "language", { value: "en-US" });
}
