// A browser by what it says about itself, in two words. Pure.
const NAMES: readonly (readonly [RegExp, string])[] = [
  [/\bEdg/, "Edge"],
  [/\bOPR\//, "Opera"],
  [/\b(Firefox|FxiOS)\//, "Firefox"],
  [/\b(Chrome|CriOS)\//, "Chrome"],
  [/\bSafari\//, "Safari"],
];
const SYSTEMS: readonly (readonly [RegExp, string])[] = [
  [/\b(iPhone|iPad)\b/, "iOS"],
  [/\bAndroid\b/, "Android"],
  [/\bWindows\b/, "Windows"],
  [/\bMac OS X\b/, "macOS"],
  [/\bLinux\b/, "Linux"],
];

export function browserOf(agent: string | null): string {
  const [name, system] = [NAMES, SYSTEMS].map((known) => known.find(([pattern]) => pattern.test(agent ?? ""))?.[1]);
  if (name) return system ? `${name}, ${system}` : name;
  return agent || "not known";
}
