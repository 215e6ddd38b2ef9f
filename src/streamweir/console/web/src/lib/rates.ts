// The members of a price beyond input and output, as lines to read. Pure.
import { count, exactDollars } from "./format";
import type { RatesView as Rates } from "./types";

const OTHERS = [
  ["cache_read_usd", "cached input"],
  ["cache_write_usd", "cache write"],
  ["cache_write_1h_usd", "cache write, 1 hour"],
  ["audio_input_usd", "audio input"],
  ["audio_output_usd", "audio output"],
  ["image_input_usd", "image input"],
  ["image_output_usd", "image output"],
  ["reasoning_usd", "reasoning"],
] as const;

interface RateLine {
  what: string;
  text: string;
}

export function otherRates(rates: Rates): RateLine[] {
  const lines: RateLine[] = [];
  for (const [member, what] of OTHERS) {
    const amount = rates[member];
    if (amount !== undefined) lines.push({ what, text: exactDollars(amount) });
  }
  if (rates.per_request_usd !== undefined) lines.push({ what: "for each request", text: exactDollars(rates.per_request_usd) });
  if (rates.per_search_usd !== undefined) lines.push({ what: "for each search", text: exactDollars(rates.per_search_usd) });
  for (const tier of rates.tiers ?? []) lines.push({ what: `above ${count(tier.above_prompt_tokens)} prompt tokens`, text: inAndOut(tier.rates) });
  for (const [service, its] of Object.entries(rates.services ?? {})) lines.push({ what: `service tier ${service}`, text: inAndOut(its) });
  return lines;
}

function inAndOut(rates: Rates): string {
  return `${exactDollars(rates.input_usd)} in, ${exactDollars(rates.output_usd)} out`;
}
