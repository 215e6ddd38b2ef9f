import assert from "node:assert/strict";
import { test } from "node:test";
import { isLanguageTag } from "../src/lib/language";

test("a language that no format can be made of is told from others", () => {
  for (const tag of ["en", "en-GB", "pt-BR", "zh-Hant-TW"]) assert.ok(isLanguageTag(tag), tag);
  for (const tag of ["en-US@posix", "", "C.UTF-8"]) assert.ok(!isLanguageTag(tag), tag);
});
