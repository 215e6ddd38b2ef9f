// Nobody's production key is used because it comes first.
import assert from "node:assert/strict";
import { test } from "node:test";
import { usualKey } from "../src/lib/playkey";
import type { PlayKeyView } from "../src/lib/types";

const TABLE: [string[], string | null][] = [
  [[], null],
  [["billing"], null],
  [["billing", "checkout", "playground-2"], null],
  [["billing", "development"], "development"],
  [["development", "playground", "zebra"], "playground"],
];

for (const [names, expected] of TABLE) {
  test(`the key of the playground among ${names.join(", ") || "none"}`, () => {
    const keys = names.map((name): PlayKeyView => ({ id: `key_${name}`, name, workspace: "default", models: null, dialect: null, log_content: false }));
    assert.equal(usualKey(keys)?.name ?? null, expected);
  });
}
