// Images that are sent with a prompt, and how each API writes them. Pure. Those of this machine are data URLs; one that a
// stored request names by its address is sent on by its address.
import type { Body } from "./draft";

export interface Image {
  name: string;
  url: string;
}

export const IMAGE_TYPES = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const MOST_IMAGES = 4;
const MOST_BYTES = 5 * 1024 * 1024; // together: in base64 they fit into the gateway's usual limit for bodies

export interface Chosen {
  name: string;
  type: string;
  size: number;
}

// Why these cannot be added to those that are there. Null: they can.
export function whyNot(files: readonly Chosen[], held: readonly Image[]): string | null {
  const odd = files.find((file) => !IMAGE_TYPES.includes(file.type));
  if (odd) return `${odd.name} is not a PNG, JPEG, WebP or GIF image.`;
  if (files.length + held.length > MOST_IMAGES) return `At most ${MOST_IMAGES} images.`;
  const size = [...held.map(sizeOf), ...files.map((file) => file.size)].reduce((sum, each) => sum + each, 0);
  return size > MOST_BYTES ? "The images are larger than 5 MiB together." : null;
}

// 0: it is elsewhere.
export function sizeOf(image: Image): number {
  const data = dataOf(image);
  return data ? Math.floor((data.base64.length * 3) / 4) - (/=*$/.exec(data.base64)?.[0].length ?? 0) : 0;
}

export function dataOf(image: Image): { type: string; base64: string } | null {
  const found = /^data:([^;,]+);base64,/.exec(image.url);
  return found?.[1] ? { type: found[1], base64: image.url.slice(found[0].length) } : null;
}

export function chatImage(image: Image): Body {
  return { type: "image_url", image_url: { url: image.url } };
}

export function messagesImage(image: Image): Body {
  const data = dataOf(image);
  return { type: "image", source: data ? { type: "base64", media_type: data.type, data: data.base64 } : { type: "url", url: image.url } };
}

export function responsesImage(image: Image): Body {
  return { type: "input_image", image_url: image.url };
}
