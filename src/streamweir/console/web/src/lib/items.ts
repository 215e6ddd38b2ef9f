// The input items of the Responses API as messages to read. Pure. Items of the assistant in a row are one message: its
// reasoning, its text, its calls. What is not known is shown as the JSON it is.
import { isObject, objects, textOf, type Json } from "./json";
import { firstText, other, readParts, type Call, type Message } from "./parts";

export function readItems(items: unknown[]): Message[] {
  const messages: Message[] = [];
  for (const item of items) {
    const message = readItem(item);
    const last = messages.at(-1);
    if (last && isOneTurn(last, message)) messages[messages.length - 1] = joined(last, message);
    else messages.push(message);
  }
  return messages;
}

// What is said after a call is another turn.
function isOneTurn(one: Message, two: Message): boolean {
  return one.role === "assistant" && two.role === "assistant" && (!one.calls.length || two.calls.length > 0);
}

function joined(one: Message, two: Message): Message {
  const reasoning = [one.reasoning, two.reasoning].filter(Boolean).join("\n\n") || null;
  return { ...one, parts: [...one.parts, ...two.parts], reasoning, calls: [...one.calls, ...two.calls] };
}

const NOTHING: Message = { role: "assistant", name: null, answers: null, parts: [], reasoning: null, calls: [] };

function readItem(item: unknown): Message {
  if (!isObject(item)) return { ...NOTHING, role: "?", parts: [other(item)] };
  switch (item.type ?? "message") {
    case "message":
      return readMessage(item);
    case "reasoning":
      return readReasoning(item);
    case "function_call":
    case "custom_tool_call":
      return { ...NOTHING, calls: [readCall(item)] };
    case "function_call_output":
    case "custom_tool_call_output":
      return { ...NOTHING, role: "tool", answers: firstText(item.call_id), parts: readParts(item.output) };
  }
  return { ...NOTHING, role: firstText(item.type) ?? "?", parts: [other(item)] };
}

function readMessage(item: Json): Message {
  const { type: _, id: __, status: ___, role, content, ...rest } = item;
  const parts = readParts(content);
  if (Object.keys(rest).length) parts.push(other(rest));
  return { ...NOTHING, role: firstText(role) ?? "?", parts };
}

function readReasoning(item: Json): Message {
  const texts = [...objects(item.summary), ...objects(item.content)].map((part) => textOf(part.text)).filter(Boolean);
  if (texts.length) return { ...NOTHING, reasoning: texts.join("\n\n") };
  return { ...NOTHING, parts: [other("Reasoning that only the provider can read.")] };
}

function readCall(item: Json): Call {
  const name = firstText(item.name) ?? "?";
  const said = item.type === "custom_tool_call" ? item.input : item.arguments;
  return { id: firstText(item.call_id), name: [firstText(item.namespace), name].filter(Boolean).join("."), arguments: textOf(said) ?? JSON.stringify(said ?? {}) };
}
