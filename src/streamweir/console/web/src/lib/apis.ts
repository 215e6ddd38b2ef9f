// The APIs that callers speak, by their names in the log (`dialect`): the dialects of chat completions, and others.
export const DIALECTS = ["openai", "opentoken", "aivene", "bitseek"] as const;
export const MESSAGES = "messages";
export const RESPONSES = "responses";
export const EMBEDDINGS = "embeddings";
export const COMPLETIONS = "completions";
export const APIS = [...DIALECTS, MESSAGES, RESPONSES, EMBEDDINGS, COMPLETIONS] as const;

// In one of its dialects, those of extensions too; empty is the usual one.
export function isChat(api: string): boolean {
  return ![MESSAGES, RESPONSES, EMBEDDINGS, COMPLETIONS].includes(api);
}

export function isInPlayground(api: string): boolean {
  return ![EMBEDDINGS, COMPLETIONS].includes(api);
}

export function nameOfApi(api: string): string {
  if (api === COMPLETIONS) return "Text completions";
  if ((DIALECTS as readonly string[]).includes(api)) return `Chat completions (${api})`;
  return (APIS as readonly string[]).includes(api) ? `${api[0]!.toUpperCase()}${api.slice(1)}` : api;
}
