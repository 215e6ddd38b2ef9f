// Members of JSON that somebody else wrote: each is what it should be, or nothing. Pure.
export type Json = Record<string, unknown>;

export function readObject(text: string): Json | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

export function numberOf(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

export function objectOf(value: unknown): Json {
  return typeof value === "object" && value !== null ? (value as Json) : {};
}

export function objects(value: unknown): Json[] {
  return Array.isArray(value) ? value.filter((each): each is Json => typeof each === "object" && each !== null) : [];
}
