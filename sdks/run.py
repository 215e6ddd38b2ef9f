"""`make test-sdks`: the client SDKs against this gateway, on the simulator and on the embedded model.

    environments (environment.py) -> one gateway (gateway.py) -> per SDK and scenario a driver -> judge.py -> a table

Each driver runs in a process and an environment of its own, is handed a job and says what it saw
(observe.py). Ends with status 1 where anything failed, and 2 where nothing could be tried.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

from environment import BUILD, Driver, InstallError, find_node, make_node, make_python, names, needs_node
from gateway import Gateway, GatewayError, has_embedded_model, serve
from judge import Expected, Finding, Line, Mark, expected_of, judge

DRIVER_S = 120.0
WRONG_KEY = "sk-this-is-not-a-key"
PROMPTS = {"sim": "Say hello to the reader.", "local": "Say hi."}
MAX_TOKENS = {"sim": 500, "local": 96}
"""More than the answer has: some SDKs of the Responses API take an answer that ends at the limit for an error."""
TOOL = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
INPUTS = ["One text.", "Another one."]
SCENARIOS = {
    "sim": {
        "text": "sim/hello",
        "tools": "sim/tools",
        "results": "sim/tools",
        "reasoning": "sim/reasoning",
        "usage": "sim/hello",
        "parsed": "sim/json",
        "embeddings": "sim/embed",
        "completions": "sim/hello",
        "error": "sim/error?at=3",
        "refused": "sim/error?status=400",
        "key": "sim/hello",
    },
    "local": {"text": "local/smollm2", "usage": "local/smollm2", "key": "local/smollm2"},
}

Column = tuple[str, str]
"""A scenario and a check."""
COLUMNS: list[Column] = [(scenario, check) for scenario, models in SCENARIOS.items() for check in models]


@dataclass
class Row:
    name: str
    version: str = "not installed"
    findings: dict[Column, Finding] = field(default_factory=dict)


def main() -> int:
    parser = argparse.ArgumentParser(description="Tests the client SDKs against this gateway.")
    parser.add_argument("names", nargs="*", metavar="SDK", help=f"any of {', '.join(names())}; all of them by default")
    chosen = parser.parse_args().names or names()
    unknown = sorted(set(chosen) - set(names()))
    if unknown:
        parser.error(f"no such SDK: {', '.join(unknown)}")
    drivers = {name: _make(name) for name in chosen}
    scenarios = dict(SCENARIOS)
    if not has_embedded_model():
        del scenarios["local"]
    _say("Starting the gateway")
    try:
        with serve(BUILD / "gateway") as target:
            expected = _expectations(target, scenarios)
            rows = [_test(name, driver, target, scenarios, expected) for name, driver in drivers.items()]
    except GatewayError as error:
        _say(str(error))
        return 2
    _show(rows)
    failed = any(finding.mark is Mark.FAILED for row in rows for finding in row.findings.values())
    return 1 if failed else 0


def _make(name: str) -> Driver | InstallError:
    try:
        return make_node(name, find_node()) if needs_node(name) else make_python(name)
    except InstallError as error:
        return error


def _expectations(target: Gateway, scenarios: dict[str, dict[str, str]]) -> dict[Column, Expected]:
    return {
        (scenario, check): _expected(target, scenario, check)
        for scenario, models in scenarios.items()
        for check in models
    }


def _expected(target: Gateway, scenario: str, check: str) -> Expected:
    asked: dict[str, Any] = {
        "model": SCENARIOS[scenario][check],
        "messages": [{"role": "user", "content": PROMPTS[scenario]}],
        "max_tokens": MAX_TOKENS[scenario],
        "temperature": 0,
    }
    if check == "key":
        return Expected()
    if check == "error":
        return Expected(error=target.ask_for_error(asked))
    if check == "refused":
        status, message = target.ask_for_refusal(asked)
        return Expected(error=message, status=status)
    if check == "parsed":
        schema = {"name": "weather", "schema": SCHEMA, "strict": True}
        answer = target.ask({**asked, "response_format": {"type": "json_schema", "json_schema": schema}})
        return Expected(parsed=json.loads(expected_of(answer).text))
    if check == "embeddings":
        return Expected(embeddings=target.embed({"model": asked["model"], "input": INPUTS}))
    if check == "completions":
        return Expected(completions=target.complete({"model": asked["model"], "prompt": PROMPTS[scenario]}))
    tools = {"tools": [{"type": "function", "function": TOOL}]} if check in ("tools", "results") else {}
    answer = target.ask({**asked, **tools})
    if check == "results":
        called = answer["choices"][0]["message"]
        asked["messages"] = [*asked["messages"], called, *map(_result, called["tool_calls"])]
        return Expected(results=expected_of(target.ask({**asked, **tools})).text)
    return expected_of(answer)


def _result(call: dict[str, Any]) -> dict[str, str]:
    """As the drivers answer a call."""
    city = json.loads(call["function"]["arguments"])["city"]
    return {"role": "tool", "tool_call_id": call["id"], "content": f"Sun over {city}."}


def _test(
    name: str,
    driver: Driver | InstallError,
    target: Gateway,
    scenarios: dict[str, dict[str, str]],
    expected: dict[Column, Expected],
) -> Row:
    row = Row(name)
    if isinstance(driver, InstallError):
        row.findings = {column: Finding(Mark.FAILED, f"not installed: {driver}") for column in COLUMNS}
        return row
    _say(f"Testing {name}")
    row.version = driver.version
    for scenario, models in scenarios.items():
        lines, trouble = _drive(driver, target, scenario)
        for check in models:
            if trouble and check not in lines:
                row.findings[scenario, check] = Finding(Mark.FAILED, trouble)
            else:
                row.findings[scenario, check] = judge(check, lines.get(check), expected[scenario, check])
    return row


def _drive(driver: Driver, target: Gateway, scenario: str) -> tuple[dict[str, Line], str]:
    """What the driver said per check, and, where it did not come to its end, why."""
    job = {
        "base_url": target.base_url,
        "key": target.key,
        "wrong_key": WRONG_KEY,
        "prompt": PROMPTS[scenario],
        "max_tokens": MAX_TOKENS[scenario],
        "tool": TOOL,
        "schema": SCHEMA,
        "inputs": INPUTS,
        "models": SCENARIOS[scenario],
    }
    # Nothing of the user's own settings: OPENAI_BASE_URL, ANTHROPIC_API_KEY, proxies.
    environ = {name: value for name, value in driver.environ.items() if not _is_foreign(name.upper())}
    try:
        done = subprocess.run(  # noqa: S603
            driver.command, env=environ, input=json.dumps(job), capture_output=True, text=True, timeout=DRIVER_S
        )
    except subprocess.TimeoutExpired:
        return {}, f"the driver took longer than {DRIVER_S:.0f} s"
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    trouble = "" if done.returncode == 0 else f"the driver ended badly: {' '.join(done.stderr.split())[-300:]}"
    return {line["check"]: line for line in lines}, trouble


def _is_foreign(name: str) -> bool:
    prefixes = ("OPENAI_", "ANTHROPIC_", "LANGCHAIN_", "LANGSMITH_", "LLM_", "INSTRUCTOR_")
    return name.startswith(prefixes) or name.endswith("_PROXY")


def _show(rows: list[Row]) -> None:
    skipped = Finding(Mark.SKIPPED)
    table = [["SDK", *(f"{scenario}:{check}" for scenario, check in COLUMNS), "versions"]]
    notes = []
    for row in rows:
        findings = {column: row.findings.get(column, skipped) for column in COLUMNS}
        table.append([row.name, *(finding.mark.value for finding in findings.values()), row.version])
        for (scenario, check), finding in findings.items():
            if finding.mark in (Mark.FAILED, Mark.ABSENT):
                notes.append(f"{finding.mark.value:4} {row.name}, {scenario}:{check}: {finding.reason}")
    widths = [max(len(line[place]) for line in table) for place in range(len(table[0]))]
    for line in table:
        _say("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    if not has_embedded_model():
        notes.append(f"{Mark.SKIPPED.value:4} local: the embedded model is not installed here")
    for note in notes:
        _say(note)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
