// The columns of the log: what is chosen is shown, in the order of the table.
import assert from "node:assert/strict";
import { test } from "node:test";
import { chosenColumns, readColumns } from "../src/lib/columns";

const ALL = [{ name: "Time", isAlways: true }, { name: "Result", isUsual: true }, { name: "Node" }];
const names = (kept: string[] | null) => chosenColumns(ALL, kept).map((column) => column.name);

test("the usual ones, until somebody chooses", () => {
  assert.deepEqual(names(null), ["Time", "Result"]);
  assert.deepEqual(names(["Node", "Gone"]), ["Time", "Node"]);
  assert.deepEqual(names([]), ["Time"]);
});

test("what was kept is read, and nothing else is believed", () => {
  assert.deepEqual(readColumns('["Node",5]'), ["Node"]);
  for (const text of [null, "", "x", "5", "{}", "null"]) assert.equal(readColumns(text), null);
});
