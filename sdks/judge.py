"""Whether what an SDK saw is what it should have seen. The one place that knows; pure.

A driver's line (`observe.py`) is held against what the gateway itself answers to the same request
(`Expected`). Per check the driver gives, under each of the names
`streamed`, `buffered` and sometimes `helper` (a second way to read a stream):

    text, reasoning    the text
    tools              [{"name", "arguments": an object or its JSON text}]
    results            the text after the calls, when each was answered with "Sun over CITY."
    usage              [input, output, total]
    parsed             the object of the job's schema, as the SDK's own way to structured output gives it
    embeddings         the vectors of the job's inputs, under any names
    completions        the text of a legacy completion
    error              the gateway's error, raised after some text, of a stream that breaks off
    refused            the gateway's error with its status, raised in place of an answer
    key                an error with status 401
"""

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

Line = dict[str, Any]
OPTIONAL = ("results", "parsed", "embeddings", "completions")
"""Checks of which a driver may know nothing: they are skipped then."""


class Mark(Enum):
    PASSED = "ok"
    FAILED = "FAIL"
    ABSENT = "-"
    SKIPPED = "skip"


@dataclass(frozen=True)
class Finding:
    mark: Mark
    reason: str = ""


@dataclass(frozen=True)
class Expected:
    """What the gateway answers for a check's model, without any SDK between."""

    text: str = ""
    reasoning: str = ""
    tools: list[dict[str, Any]] = field(default_factory=list)
    results: str = ""
    usage: list[int] = field(default_factory=list)
    parsed: dict[str, Any] = field(default_factory=dict)
    embeddings: list[list[float]] = field(default_factory=list)
    completions: str = ""
    error: str = ""
    """The message of the error that its stream ends with, or that is its answer."""
    status: int = 401
    """Of an error in place of the answer."""


def expected_of(completion: Line) -> Expected:
    message = completion["choices"][0]["message"]
    usage = completion["usage"]
    calls = [call["function"] for call in message.get("tool_calls") or []]
    return Expected(
        text=message.get("content") or "",
        reasoning=message.get("reasoning_content") or "",
        tools=[{"name": call["name"], "arguments": json.loads(call["arguments"])} for call in calls],
        usage=[usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]],
    )


def judge(check: str, line: Line | None, expected: Expected) -> Finding:
    if line is None:
        return _failed("the driver said nothing of it")
    if "unknown" in line and check in OPTIONAL:
        return Finding(Mark.SKIPPED)
    if "unknown" in line:
        return _failed("the driver does not know it")
    if "crashed" in line:
        return _failed(line["crashed"])
    if "absent" in line:
        return Finding(Mark.ABSENT, f"not exposed by this SDK: {line['absent']}")
    if check in ("error", "refused", "key"):
        return _judge_error(check, line, expected)
    if "saw" not in line:
        return _failed(f"raised {line['raised']['type']}: {line['raised']['message']}")
    return _judge_sight(check, line["saw"], getattr(expected, check))


def _judge_sight(check: str, saw: dict[str, Any], right: object) -> Finding:
    if not right:
        return _failed("the gateway's own answer has none")
    if check == "tools" and isinstance(right, list) and len(right) < 2:
        return _failed("the gateway's own answer has no parallel calls")
    ways = set(saw) if check == "embeddings" else {"streamed", "buffered", *saw}
    for way in sorted(ways):
        found = saw.get(way)
        if check == "tools":
            found = _read_calls(found)
        elif check == "embeddings":
            found, right = rounded(found), rounded(right)
        if found != right:
            return _failed(f"{way}: {_short(found)} instead of {_short(right)}")
    return Finding(Mark.PASSED)


def _judge_error(check: str, line: Line, expected: Expected) -> Finding:
    error = line.get("raised")
    if error is None:
        return _failed(f"no error was raised: {_short(line['saw'])}")
    if check == "error" and not error["before"]:
        return _failed(f"{error['type']} came before any text: {error['message']}")
    if check != "key" and not (expected.error and expected.error in error["message"]):
        return _failed(f"{error['type']} says {error['message']!r} instead of {expected.error!r}")
    if check != "error" and error["status"] != expected.status:
        return _failed(f"{error['type']} has status {error['status']}: {error['message']}")
    return Finding(Mark.PASSED, error["type"])


def rounded(vectors: object) -> object:
    """Vectors may come as floats of 32 bits."""
    if not isinstance(vectors, list) or not all(isinstance(vector, list) for vector in vectors):
        return vectors
    return [[round(number, 5) for number in vector] for vector in vectors]


def _read_calls(calls: object) -> object:
    """Calls with their arguments read; text that is no JSON stays text, and so differs."""
    if not isinstance(calls, list):
        return calls
    return [{"name": call["name"], "arguments": _read_arguments(call["arguments"])} for call in calls]


def _read_arguments(arguments: object) -> object:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _failed(reason: str) -> Finding:
    return Finding(Mark.FAILED, reason)


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 160 else text[:157] + "..."
