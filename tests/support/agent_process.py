"""Coding agents as people have them, each a program from the package index: Claude Code, opencode and Codex.

    run = await CLAUDE_CODE.run(AgentSetup(base_url, key, tmp_path), "Write a poem.")
    assert run.status == 0 and run.text == ...

An agent runs with an environment of the few names below and with a home directory of its own, in `setup.folder`; it
works in `setup.workspace`. What it says on its standard output, one JSON document per line, is read into the same
`AgentRun` for all. They are installed where STREAMWEIR_AGENTS says (`make test-agents`, tests/agents/package.json).
"""

import asyncio
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

AGENT_S = 300.0
"""For one task, on a machine that may be busy: they take seconds."""
MODEL = "claude-opus-5-5"
SMALL_MODEL = "claude-haiku-5-5"
NAME = "STREAMWEIR_AGENTS"

_CONFIG = {
    "autoupdate": False,
    "share": "disabled",
    "model": f"gateway/{MODEL}",
    "small_model": f"gateway/{SMALL_MODEL}",
}


@dataclass(frozen=True)
class AgentSetup:
    """The endpoint of an agent, and its folders."""

    base_url: str
    """Without a version."""
    key: str
    folder: Path
    model: str = MODEL
    settings: str = ""
    """Further lines of the agent's configuration, where it has one in lines: Codex."""

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"


@dataclass
class AgentRun:
    """What an agent printed."""

    status: int
    events: list[dict[str, Any]]
    stderr: str
    """Its standard error."""
    reasoning: list[str] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=lambda: {"uncached": 0, "cached": 0, "completion": 0})
    """TokenCounts over all turns; `uncached`: of the prompts, without those from the cache."""
    error: str = ""


@dataclass(frozen=True)
class Agent:
    name: str
    program: str
    """From the folder with the packages."""
    prepare: Callable[[AgentSetup], None]
    arguments: tuple[str, ...]
    environ: Callable[[AgentSetup], dict[str, str]]
    read: Callable[[AgentRun], None]
    wire: str = "anthropic"
    """Of its API."""
    dialect: str = "messages"
    """What the gateway calls that API."""

    async def run(
        self, setup: AgentSetup, prompt: str, more: Mapping[str, str] | None = None, arguments: tuple[str, ...] = ()
    ) -> AgentRun:
        """`more`: of the environment. `arguments`: others than those of a new task."""
        setup.home.mkdir(parents=True, exist_ok=True)
        setup.workspace.mkdir(exist_ok=True)
        self.prepare(setup)
        own = {"HOME": str(setup.home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        process = await asyncio.create_subprocess_exec(
            str(install_folder() / "node_modules" / self.program),
            *(prompt if word == "PROMPT" else word for word in arguments or self.arguments),
            cwd=setup.workspace,
            env={**own, **self.environ(setup), **(more or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(AGENT_S):
                out, stderr = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        events = [json.loads(line) for line in out.splitlines() if line.startswith(b"{")]
        run = AgentRun(process.returncode, events, stderr.decode(errors="replace"))
        self.read(run)
        return run


def install_folder() -> Path:
    return Path(os.environ[NAME])


def network_interfaces() -> list[str]:
    """Of the network, as this process has it."""
    return [line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]]


def _claude_environ(setup: AgentSetup) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": setup.base_url,
        "ANTHROPIC_API_KEY": setup.key,
        "ANTHROPIC_MODEL": setup.model,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",
    }


def _read_claude(run: AgentRun) -> None:
    for event in run.events:
        if event["type"] in ("assistant", "user"):
            content = event["message"]["content"]
            for block in content if isinstance(content, list) else []:
                _read_claude_block(run, block, is_error="error" in event)
        elif event["type"] == "result":
            spent = event["usage"]
            run.usage["uncached"] += spent["input_tokens"] + spent["cache_creation_input_tokens"]
            run.usage["cached"] += spent["cache_read_input_tokens"]
            run.usage["completion"] += spent["output_tokens"]
            if event["is_error"]:
                run.error = event.get("result") or event["subtype"]


def _read_claude_block(run: AgentRun, block: dict[str, Any], is_error: bool) -> None:
    if block["type"] == "thinking":
        run.reasoning.append(block["thinking"])
    elif block["type"] == "tool_use":
        run.calls.append((block["name"], block["input"]))
    elif block["type"] == "tool_result":
        run.results.append(str(block["content"]))
    elif block["type"] == "text" and not is_error:
        run.texts.append(block["text"])


def _prepare_opencode(setup: AgentSetup) -> None:
    folder = setup.home / ".config" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    models = {
        MODEL: {"name": "Opus", "reasoning": True, "tool_call": True, "limit": {"context": 200_000, "output": 32_000}},
        SMALL_MODEL: {"name": "Haiku"},
    }
    options = {"baseURL": f"{setup.base_url}/v1", "apiKey": setup.key}
    provider = {"npm": "@ai-sdk/anthropic", "name": "Gateway", "options": options, "models": models}
    (folder / "opencode.json").write_text(json.dumps({**_CONFIG, "provider": {"gateway": provider}}))


def _opencode_environ(_: AgentSetup) -> dict[str, str]:
    off = ("DISABLE_MODELS_FETCH", "DISABLE_AUTOUPDATE", "DISABLE_LSP_DOWNLOAD", "PURE")
    return {f"OPENCODE_{name}": "1" for name in off}


def _read_opencode(run: AgentRun) -> None:
    for event in run.events:
        part = event.get("part", {})
        if event["type"] == "reasoning":
            run.reasoning.append(part["text"])
        elif event["type"] == "tool_use":
            run.calls.append((part["tool"], part["state"]["input"]))
            run.results.append(str(part["state"].get("output", part["state"].get("error"))))
        elif event["type"] == "text":
            run.texts.append(part["text"])
        elif event["type"] == "step_finish":
            spent = part["tokens"]
            run.usage["uncached"] += spent["input"] + spent["cache"]["write"]
            run.usage["cached"] += spent["cache"]["read"]
            run.usage["completion"] += spent["output"] + spent["reasoning"]
        elif event["type"] == "error":
            run.error = json.dumps(event["error"])


def _prepare_codex(setup: AgentSetup) -> None:
    folder = setup.home / ".codex"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(f"""model = "{setup.model}"
model_provider = "gateway"
model_reasoning_summary = "auto"
check_for_update_on_startup = false
analytics.enabled = false

[model_providers.gateway]
name = "Gateway"
base_url = "{setup.base_url}/v1"
env_key = "GATEWAY_KEY"
wire_api = "responses"
{setup.settings}""")


def _codex_environ(setup: AgentSetup) -> dict[str, str]:
    return {"GATEWAY_KEY": setup.key}


def _read_codex(run: AgentRun) -> None:
    for event in run.events:
        item = event.get("item", {})
        if event["type"] == "item.completed" and item["type"] == "reasoning":
            run.reasoning.append(item["text"])
        elif event["type"] == "item.completed" and item["type"] == "agent_message":
            run.texts.append(item["text"])
        elif event["type"] == "item.completed" and item["type"] in ("command_execution", "file_change"):
            run.calls.append((item["type"], item))
            run.results.append(item.get("aggregated_output", item["status"]))
        elif event["type"] == "turn.completed":
            spent = event["usage"]
            run.usage["uncached"] += spent["input_tokens"] - spent["cached_input_tokens"]
            run.usage["cached"] += spent["cached_input_tokens"]
            run.usage["completion"] += spent["output_tokens"]
        elif event["type"] == "turn.failed":
            run.error = event["error"]["message"]


_SYSTEM = f"{sys.platform}-{ {'x86_64': 'x64', 'aarch64': 'arm64'}.get(platform.machine(), platform.machine()) }"

CLAUDE_CODE = Agent(
    "claude-code",
    f"@anthropic-ai/claude-code-{_SYSTEM}/claude",
    lambda _: None,
    (
        "-p",
        "PROMPT",
        "--output-format",
        "stream-json",
        "--verbose",
        "--allowedTools",
        "Write,Read",
        "--max-turns",
        "10",
    ),
    _claude_environ,
    _read_claude,
)
OPENCODE = Agent(
    "opencode",
    f"opencode-{_SYSTEM}-baseline/bin/opencode",
    _prepare_opencode,
    ("run", "--format", "json", "--thinking", "PROMPT"),
    _opencode_environ,
    _read_opencode,
)
CODEX_WORDS = ("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "PROMPT")
"""The sandbox is off, for it needs rights that not every machine gives."""
CODEX = Agent(
    "codex",
    f"@openai/codex-{_SYSTEM}/vendor/{platform.machine()}-unknown-linux-musl/bin/codex",
    _prepare_codex,
    ("exec", *CODEX_WORDS),
    _codex_environ,
    _read_codex,
    wire="responses",
    dialect="responses",
)
CODEX_RESUME = ("exec", "resume", "--last", *CODEX_WORDS)
"""The arguments that continue the last task."""
PATCH_MODEL, SCRIPT_MODEL = "gpt-5.5", "gpt-5.6-sol"
"""Models that Codex knows: the first gets `apply_patch`, the second writes scripts that call the tools."""
AGENTS = (CLAUDE_CODE, OPENCODE, CODEX)
