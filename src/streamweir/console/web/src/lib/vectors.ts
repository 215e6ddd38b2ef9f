// What an answer of the embeddings API amounts to: how many vectors, and how long. Pure.
import { objects, type Json } from "./json";

export interface Vectors {
  count: number;
  length: number | null; // null: they differ, or cannot be read
}

const BYTES = 4; // of a number in base64

export function readVectors(body: Json): Vectors | null {
  const data = objects(body.data);
  if (body.object !== "list" || !data.length || !data.every((each) => each.object === "embedding")) return null;
  const lengths = new Set(data.map((each) => lengthOf(each.embedding)));
  const [length] = lengths;
  return { count: data.length, length: lengths.size === 1 ? (length ?? null) : null };
}

function lengthOf(embedding: unknown): number | null {
  if (Array.isArray(embedding)) return embedding.length;
  if (typeof embedding !== "string") return null;
  return Math.floor((embedding.replace(/=+$/, "").length * 3) / 4 / BYTES);
}
