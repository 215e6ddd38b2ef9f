import assert from "node:assert/strict";
import { test } from "node:test";
import { shownSections, textOf } from "../src/lib/toml";
import type { Line, Section } from "../src/lib/types";

const line = (text: string, about: string | null, isDefault = false): Line => ({
  path: text,
  text,
  value: null,
  origin: about === null ? null : isDefault ? "default" : "file",
  about: about ?? "",
  is_default: isDefault,
});

const SECTIONS: Section[] = [
  { name: "server", lines: [line("[server]", null), line("listen = 1", "a.toml:2"), line("[server.log]", null, true), line("level = 2", "default", true)] },
  { name: "shared", lines: [line("# [shared] is not set", null, true)] },
  { name: "providers.up", lines: [line("[[providers]]", null), line('name = "up"', "a.toml:4")] },
];

const texts = (hasDefaults: boolean, part = "") => shownSections(SECTIONS, hasDefaults, part).map((section) => section.lines.map((each) => each.text));

test("defaults are left out, with the tables that have nothing else", () => {
  assert.deepEqual(texts(false), [
    ["[server]", "listen = 1"],
    ["[[providers]]", 'name = "up"'],
  ]);
  assert.deepEqual(texts(true)[0], SECTIONS[0]!.lines.map((each) => each.text));
  assert.deepEqual(texts(true)[1], ["# [shared] is not set"]);
});

test("a setting is found by its text and its origin, and its heading stays", () => {
  assert.deepEqual(texts(true, "LEVEL"), [["[server.log]", "level = 2"]]);
  assert.deepEqual(texts(false, "a.toml:4"), [["[[providers]]", 'name = "up"']]);
  assert.deepEqual(texts(true, "nothing"), []);
});

test("the text is a file with the origins as comments", () => {
  assert.equal(textOf(shownSections(SECTIONS, false, "")), '[server]\nlisten = 1  # a.toml:2\n\n[[providers]]\nname = "up"  # a.toml:4\n');
});
