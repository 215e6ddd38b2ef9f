// What every JavaScript driver shares: a job comes in, one line per check goes out.
// The same contract as observe.py, which describes it.

import { text as readAll } from "node:stream/consumers";

// Runs the checks that the job asks for, in its order.
export async function run(checks) {
  const job = JSON.parse(await readAll(process.stdin));
  for (const [check, model] of Object.entries(job.models)) {
    let seen;
    try {
      seen = check in checks ? await checks[check](job, model) : { unknown: true };
    } catch (error) {
      seen = { crashed: line(`${nameOf(error)}: ${error?.message ?? error}`) };
    }
    process.stdout.write(JSON.stringify({ check, ...seen }) + "\n");
  }
}

export function saw(members) {
  return { saw: members };
}

// `before`: the text that had arrived when it was raised.
export function raised(error, status = null, before = "") {
  return { raised: { type: nameOf(error), status, message: line(error.message), before } };
}

export function absent(why) {
  return { absent: why };
}

function nameOf(error) {
  const own = error?.constructor?.name;
  return own === undefined || own === "Error" || own === "Object" ? (error?.name ?? typeof error) : own;
}

function line(text) {
  return String(text).split(/\s+/).join(" ").slice(0, 300);
}
