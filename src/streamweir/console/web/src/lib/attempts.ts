// What a provider answered in each attempt, in words. Pure. Rows of older versions have nothing of it.
import { duration } from "./format";
import type { AttemptView } from "./types";

interface AttemptText {
  name: string;
  answer: string; // of the provider: its status and the code of its error
  about: string; // what else it named: the type and the parameter
  message: string;
  requestId: string;
  address: string;
  connection: string; // how it was opened
  firstByte: string;
}

export function attemptTexts(attempts: readonly AttemptView[]): AttemptText[] {
  return attempts.map((attempt, index) => ({
    name: attempts.length > 1 ? `Attempt ${index + 1}` : "Attempt",
    answer: [attempt.status, attempt.provider_code ?? attempt.provider_type].filter(Boolean).join(" "),
    about: [
      attempt.provider_code !== undefined && attempt.provider_type !== undefined ? `type ${attempt.provider_type}` : "",
      attempt.provider_param === undefined ? "" : `parameter ${attempt.provider_param}`,
    ]
      .filter(Boolean)
      .join(", "),
    message: [attempt.provider_message, attempt.advice].filter(Boolean).join(" "),
    requestId: attempt.provider_request_id ?? "",
    address: attempt.address ? `${attempt.address}${attempt.via_proxy ? " (proxy)" : ""}` : "",
    connection: connectionText(attempt),
    firstByte: attempt.first_byte_s === undefined ? "" : `after ${duration(attempt.first_byte_s * 1000)}`,
  }));
}

export function hasAnswer(attempt: AttemptView): boolean {
  return attempt.status !== undefined || attempt.address !== undefined || attempt.dns_s !== undefined || attempt.provider_message !== undefined;
}

function connectionText(attempt: AttemptView): string {
  if (attempt.reused) return "reused";
  const steps: [string, number | undefined][] = [
    ["DNS", attempt.dns_s],
    ["connect", attempt.connect_s],
    ["TLS", attempt.tls_s],
  ];
  const taken = steps.flatMap(([name, seconds]) => (seconds === undefined ? [] : [`${name} ${duration(seconds * 1000)}`]));
  return taken.length ? `new: ${taken.join(", ")}` : "";
}
