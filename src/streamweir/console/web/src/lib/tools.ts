// Tools as the three APIs write them. Pure. The playground takes each form, and sends the one of the API that is asked;
// a tool that has no other form (the provider's own) goes on as it is.
import { objectOf, type Json } from "./json";

interface Tool {
  name: unknown;
  description?: unknown;
  schema?: unknown; // of a function
  strict?: unknown;
  format?: unknown; // of a custom tool: its input is any text
  isCustom: boolean;
}

function readTool(tool: unknown): Tool | null {
  const given = objectOf(tool);
  if (given.type === "function" || (given.type === "custom" && given.input_schema === undefined)) {
    const inner = given[given.type];
    const members = typeof inner === "object" && inner !== null ? (inner as Json) : given; // Responses have no inner object
    const { name, description, parameters, strict, format } = members;
    return { name, description, schema: parameters, strict, format, isCustom: given.type === "custom" };
  }
  const { type, name, description, input_schema, strict } = given;
  if ((type !== undefined && type !== "custom") || typeof name !== "string") return null;
  return { name, description, schema: input_schema, strict, isCustom: false };
}

function given(members: Json): Json {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}

export function chatTool(tool: unknown): unknown {
  const read = readTool(tool);
  if (!read) return tool;
  const { name, description, schema, strict, format, isCustom } = read;
  if (isCustom) return { type: "custom", custom: given({ name, description, format }) };
  return { type: "function", function: given({ name, description, parameters: schema, strict }) };
}

export function messagesTool(tool: unknown): unknown {
  const read = readTool(tool);
  if (!read || read.isCustom) return tool; // it has no tools with any text
  const { name, description, schema = { type: "object" }, strict } = read;
  return given({ name, description, input_schema: schema, strict });
}

export function responsesTool(tool: unknown): unknown {
  const read = readTool(tool);
  if (!read) return tool;
  const { name, description, schema, strict, format, isCustom } = read;
  if (isCustom) return given({ type: "custom", name, description, format });
  return given({ type: "function", name, description, parameters: schema, strict });
}
