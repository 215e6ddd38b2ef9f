// Images as each API writes them, and what is too many.
import assert from "node:assert/strict";
import { test } from "node:test";
import { bodyOf, continued, NEW_DRAFT, type Draft } from "../src/lib/draft";
import { sizeOf, whyNot } from "../src/lib/images";

const IMAGE = { name: "weir.png", url: "data:image/png;base64,AAAA" };
const draft = (more: Partial<Draft> = {}): Draft => ({ ...NEW_DRAFT, prompt: "Hi", images: [IMAGE], ...more });
const said = (api: string, more: Partial<Draft> = {}) => {
  const { body, problems } = bodyOf(draft(more), "m", api);
  assert.deepEqual(problems, {});
  return body.messages ?? body.input;
};

const PARTS = {
  "": [{ type: "image_url", image_url: { url: IMAGE.url } }, { type: "text", text: "Hi" }],
  messages: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } }, { type: "text", text: "Hi" }],
  responses: [{ type: "input_image", image_url: IMAGE.url }, { type: "input_text", text: "Hi" }],
};

for (const [api, content] of Object.entries(PARTS)) {
  test(`an image before the prompt, and alone, in ${api || "chat completions"}`, () => {
    assert.deepEqual(said(api), [{ role: "user", content }]);
    assert.deepEqual(said(api, { prompt: "" }), [{ role: "user", content: content.slice(0, 1) }]);
  });

  test(`an image of an earlier turn in ${api || "chat completions"}`, () => {
    const later = continued(draft(), { index: 0, text: "Yes", reasoning: "", refusal: "", calls: [], finish: "stop" });
    assert.deepEqual(later.images, []);
    const [first] = said(api, later) as { content: unknown }[];
    assert.deepEqual(first?.content, content);
  });
}

test("an image that is elsewhere is sent by its address", () => {
  const images = [{ name: "a", url: "https://example.com/a.png" }];
  const [message] = said("messages", { images, prompt: "" }) as { content: unknown }[];
  assert.deepEqual(message?.content, [{ type: "image", source: { type: "url", url: "https://example.com/a.png" } }]);
  assert.equal(sizeOf(images[0]!), 0);
});

test("what cannot be added is said", () => {
  const file = (size: number, type = "image/png") => ({ name: "f", type, size });
  assert.equal(whyNot([file(1)], []), null);
  assert.match(whyNot([file(1, "image/svg+xml")], []) ?? "", /not a PNG/);
  assert.match(whyNot([file(1), file(1)], [IMAGE, IMAGE, IMAGE]) ?? "", /At most 4/);
  assert.match(whyNot([file(5 * 1024 * 1024 - 2)], [IMAGE]) ?? "", /5 MiB/);
  assert.equal(whyNot([file(5 * 1024 * 1024 - 3)], [IMAGE]), null);
});
