// The little of Node that the tests use. Its own types would declare their globals for the page's sources as well.
declare module "node:test" {
  export function test(name: string, run: () => void | Promise<void>): void;
}

declare module "node:assert/strict" {
  interface Assert {
    ok(value: unknown, message?: string): asserts value;
    equal(actual: unknown, expected: unknown, message?: string): void;
    notEqual(actual: unknown, expected: unknown, message?: string): void;
    deepEqual(actual: unknown, expected: unknown, message?: string): void;
    match(actual: string, expected: RegExp, message?: string): void;
    throws(run: () => unknown, expected?: RegExp | object): void;
    rejects(run: () => Promise<unknown>, expected?: RegExp | object): Promise<void>;
  }
  const assert: Assert;
  export default assert;
}
