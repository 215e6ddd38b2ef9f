// The kinds of limits of a key, made by scripts/generate.py from policy/limits/key_limits.py.
export const LIMITS = [
  { name: "rpm", label: "Requests per minute", brief: "requests/min", most: 1_000_000_000 },
  { name: "tpm", label: "Tokens per minute", brief: "tokens/min", most: 1_000_000_000 },
  { name: "max_streams", label: "Concurrent requests", brief: "concurrent", most: 1_000_000 },
] as const;

export type Limit = (typeof LIMITS)[number];
export type LimitName = Limit["name"];
