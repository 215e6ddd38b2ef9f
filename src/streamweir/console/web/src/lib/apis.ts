// The APIs that callers speak, by their names in the log (`dialect`): the dialects of chat completions, and others.
export const DIALECTS = ["openai", "opentoken", "aivene", "bitseek"] as const;
export const MESSAGES = "messages";
export const EMBEDDINGS = "embeddings";
export const APIS = [...DIALECTS, MESSAGES, EMBEDDINGS] as const;

export function nameOfApi(api: string): string {
  if (api === MESSAGES) return "Messages";
  if (api === EMBEDDINGS) return "Embeddings";
  return (DIALECTS as readonly string[]).includes(api) ? `Chat completions (${api})` : api;
}
