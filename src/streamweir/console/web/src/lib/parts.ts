// What a message to read is made of, and the parts of its content in any API. Pure. A part that is no text is named, or shown
// as the JSON it is.
import type { Image } from "./images";
import { isObject } from "./json";

export interface Part {
  kind: "text" | "other";
  text: string;
  image?: Image;
}

export interface Call {
  id: string | null;
  name: string;
  arguments: string;
}

export interface Message {
  role: string;
  name: string | null;
  answers: string | null; // the id of the call that a tool's message answers
  parts: Part[];
  reasoning: string | null;
  calls: Call[];
}

export function readParts(content: unknown): Part[] {
  if (content === null || content === undefined || content === "") return [];
  if (typeof content === "string") return [{ kind: "text", text: content }];
  return Array.isArray(content) ? content.map(readPart) : [other(content)];
}

function readPart(part: unknown): Part {
  if (!isObject(part)) return typeof part === "string" ? { kind: "text", text: part } : other(part);
  if (typeof part.text === "string") return { kind: "text", text: part.text };
  if (typeof part.refusal === "string") return { kind: "text", text: part.refusal };
  if (part.type === "image_url" || (part.type === "input_image" && part.image_url !== undefined)) {
    return imageAt(isObject(part.image_url) ? part.image_url.url : part.image_url);
  }
  if (part.type === "input_audio" && isObject(part.input_audio)) {
    return { kind: "other", text: `Audio: ${firstText(part.input_audio.format) ?? "?"}, ${sizeOf(part.input_audio.data)}` };
  }
  if (part.type === "input_file" || (part.type === "file" && isObject(part.file))) {
    const { filename, file_id, file_url, file_data } = isObject(part.file) ? part.file : part;
    const name = firstText(filename, file_id) ?? (file_url === undefined ? "without a name" : nameOf(file_url));
    return { kind: "other", text: `File: ${name}${file_data ? `, ${sizeOf(file_data)}` : ""}` };
  }
  if ((part.type === "image" || part.type === "document") && isObject(part.source)) {
    const { url, media_type, data } = part.source;
    const named = [firstText(part.title), url === undefined ? firstText(media_type) : nameOf(url), data === undefined ? null : sizeOf(data)];
    if (part.type === "image") return imageAt(url ?? `data:${firstText(media_type) ?? ""};base64,${firstText(data) ?? ""}`);
    if (part.source.type !== "text") return { kind: "other", text: `Document: ${named.filter(Boolean).join(", ")}` };
  }
  return other(part);
}

function imageAt(url: unknown): Part {
  const name = nameOf(url);
  return { kind: "other", text: `Image: ${name}`, ...(typeof url === "string" ? { image: { name, url } } : {}) };
}

const LONGEST_NAME = 200;

// A data URL is as long as what it holds.
function nameOf(url: unknown): string {
  if (typeof url !== "string") return "?";
  const data = /^data:([^;,]*)[^,]*,/.exec(url);
  if (data) return `${data[1] || "data"}, ${sizeOf(url.slice(data[0].length))}`;
  return url.length > LONGEST_NAME ? `${url.slice(0, LONGEST_NAME)}…` : url;
}

function sizeOf(base64: unknown): string {
  const size = typeof base64 === "string" ? Math.floor((base64.length * 3) / 4) : 0;
  return size < 1024 ? `${size} bytes` : `${Math.round(size / 1024)} KiB`;
}

export function other(value: unknown): Part {
  return { kind: "other", text: pretty(value) };
}

export function pretty(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
}

export function firstText(...values: unknown[]): string | null {
  return values.find((value): value is string => typeof value === "string" && value !== "") ?? null;
}
