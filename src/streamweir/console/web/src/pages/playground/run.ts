// One question on its way: sent, streamed, ended. Frames are read as they come and shown once per picture of the screen,
// however many there are. Times are measured here, from the moment of sending.
import { useEffect, useRef, useState } from "preact/hooks";
import { loadSession, send } from "../../lib/api";
import { endingOf, fold, NOTHING, readFault, readWhole, type Answer, type Ending, type Fault } from "../../lib/chat";
import type { Body } from "../../lib/draft";
import { Folder } from "../../lib/envelope";
import { asError } from "../../lib/load";
import { SseSplitter, type SseFrame } from "../../lib/sse";

export const MOST_FRAMES = 300;

export interface RawFrame {
  number: number;
  atMs: number;
  raw: string;
  short: string | null; // without what the frame before it had
}

export interface Run {
  phase: "idle" | "sending" | "streaming" | "over";
  ending: Ending | "stopped" | "refused" | null;
  status: number | null;
  requestId: string | null;
  answer: Answer;
  fault: Fault | null; // of a refusal, or of the way here
  frames: RawFrame[]; // the last ones
  frameCount: number;
  firstMs: number | null;
  lastMs: number | null;
  endMs: number | null;
}

interface Question {
  key: string;
  dialect?: string;
  body: Body;
}

export interface Running {
  run: Run;
  start: (question: Question) => void;
  stop: () => void;
  reset: () => void;
}

const IDLE: Run = {
  phase: "idle",
  ending: null,
  status: null,
  requestId: null,
  answer: NOTHING,
  fault: null,
  frames: [],
  frameCount: 0,
  firstMs: null,
  lastMs: null,
  endMs: null,
};

export function useRun(): Running {
  const [run, setRun] = useState<Run>(IDLE);
  const control = useRef<AbortController | null>(null);
  const begin = (): AbortController => {
    control.current?.abort();
    return (control.current = new AbortController());
  };
  useEffect(() => () => control.current?.abort(), []);
  return {
    run,
    start: (question) => {
      const mine = begin();
      void ask(question, mine.signal, (now) => {
        if (control.current === mine) setRun(now);
      });
    },
    stop: () => control.current?.abort(),
    reset: () => {
      control.current?.abort();
      control.current = null;
      setRun(IDLE);
    },
  };
}

type Keep = (raw: string, frame?: SseFrame) => void;

async function ask(question: Question, abort: AbortSignal, show: (run: Run) => void): Promise<void> {
  const began = performance.now();
  const run: Run = { ...IDLE, phase: "sending", frames: [] };
  const now = () => performance.now() - began;
  let asked = 0;
  const showSoon = () => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      show({ ...run, frames: run.frames.slice(-MOST_FRAMES) });
    });
  };
  const folder = new Folder();
  const keep: Keep = (raw, frame) => {
    run.frames.push({ number: run.frameCount++, atMs: now(), raw, short: frame ? folder.fold(frame) : null });
    if (run.frames.length > 2 * MOST_FRAMES) run.frames.splice(0, run.frames.length - MOST_FRAMES);
  };
  show({ ...run });
  try {
    const response = await send("POST", "/api/playground/chat", question, abort);
    run.phase = "streaming";
    run.status = response.status;
    run.requestId = response.headers.get("x-request-id");
    showSoon();
    if (!response.ok || !response.headers.get("content-type")?.startsWith("text/event-stream")) {
      await readAtOnce(response, run, keep);
    } else {
      await readFrames(response, run, keep, now, showSoon);
    }
  } catch (reason) {
    const problem = asError(reason);
    if (abort.aborted) run.ending = "stopped";
    else if (run.status === null) run.ending = "refused";
    else run.ending = "cut"; // the connection broke
    if (!abort.aborted) run.fault = { message: problem.message, type: null, code: null };
  }
  cancelAnimationFrame(asked);
  run.phase = "over";
  run.endMs = now();
  show({ ...run, frames: run.frames.slice(-MOST_FRAMES) });
}

async function readAtOnce(response: Response, run: Run, keep: Keep): Promise<void> {
  const text = await response.text();
  keep(text);
  if (response.ok) {
    run.answer = readWhole(text);
    run.ending = endingOf(run.answer);
    return;
  }
  run.fault = readFault(text) ?? { message: `The gateway answered with ${response.status}.`, type: null, code: null };
  run.ending = "refused";
  if (response.status === 401) void loadSession().catch(() => undefined); // of the key, or of the session?
}

async function readFrames(response: Response, run: Run, keep: Keep, now: () => number, changed: () => void): Promise<void> {
  const splitter = new SseSplitter();
  const take = (frames: ReturnType<SseSplitter["push"]>) => {
    for (const frame of frames) {
      keep(frame.raw, frame);
      const before = run.answer.pieces;
      run.answer = fold(run.answer, frame);
      if (run.answer.pieces > before) run.lastMs = now();
      run.firstMs ??= run.lastMs;
    }
    changed();
  };
  const reader = response.body?.getReader();
  for (;;) {
    const piece = await reader?.read();
    if (!piece || piece.done) break;
    take(splitter.push(piece.value));
  }
  const last = splitter.end();
  take(last.frames);
  if (last.rest) keep(last.rest);
  run.ending = endingOf(run.answer);
}
