// The APIs that callers speak, by their names in the log (`dialect`): the dialects of chat completions, and Messages.
export const DIALECTS = ["openai", "opentoken", "aivene", "bitseek"] as const;
export const MESSAGES = "messages";
export const APIS = [...DIALECTS, MESSAGES] as const;

export function nameOfApi(api: string): string {
  if (api === MESSAGES) return "Messages";
  return (DIALECTS as readonly string[]).includes(api) ? `Chat completions (${api})` : api;
}
