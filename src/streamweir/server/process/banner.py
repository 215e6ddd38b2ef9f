"""What a gateway says about itself when it serves: the lines of the start, and the content of its run file.

The lines are its addresses, its keys, and commands to try it with. The run file has no secret.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from streamweir import __version__
from streamweir.config.model import Config
from streamweir.config.secret import masked_url
from streamweir.policy.routing.route import is_pattern
from streamweir.server.process.bootstrap import node_name
from streamweir.server.process.development_key import DEVELOPMENT_KEY_NAME
from streamweir.server.process.run_file import RunFile
from streamweir.server.process.worker import StartOptions
from streamweir.store.db.clock import now_ms
from streamweir.store.db.engine import sqlite_path
from streamweir.upstream.local import why_unavailable

_EXAMPLE_PROMPT = "What is a river?"
"""The embedded model is small. Of twenty questions that were tried, it answered this one sensibly each time."""
_CLAUDE_CODE = (
    "ANTHROPIC_BASE_URL={base} ANTHROPIC_AUTH_TOKEN={secret} ANTHROPIC_MODEL={model}"
    " ANTHROPIC_DEFAULT_HAIKU_MODEL={model} claude"
)
"""The last variable names the model for titles and other small requests."""
_CODEX = (
    "STREAMWEIR_KEY={secret} codex --sandbox workspace-write --model {model} -c model_provider=streamweir"
    ' -c \'model_providers.streamweir={{name="Streamweir", base_url="{base}/v1", env_key="STREAMWEIR_KEY",'
    ' wire_api="responses"}}\''
)
"""A command in its sandbox may then write to the working directory."""


def banner(config: Config, start: StartOptions, listeners: list[socket.socket], admin_secret: str | None = None) -> str:
    """The first steps for a new user. `admin_secret`: given if it was just created."""
    base = next(_urls(config, listeners))
    model = _model_to_try(config)
    key = config.keys[0]
    is_ours = key.name == DEVELOPMENT_KEY_NAME
    secret = key.key if is_ours else "$KEY"
    lines = [
        f"Streamweir {__version__} is listening on {base}",
        "",
        *([f"  console    {base}/console"] if not config.store.is_none else []),
        f"  chat       {base}/v1/chat/completions   (any OpenAI SDK: base URL {base}/v1)",
        f"  responses  {base}/v1/responses",
        f"  embeddings {base}/v1/embeddings",
        f"  messages   {base}/v1/messages   (any Anthropic SDK: base URL {base})",
        f"  models     {base}/v1/models",
        f"  health     {base}/health   {base}/ready",
        f"  metrics    {base}/metrics   ({_metrics_access(config)})",
        f"  data       {start.data_dir}",
        f"  key        {key.key if is_ours else ', '.join(entry.name for entry in config.keys)}",
    ]
    if admin_secret is not None:
        lines.append(f"  admin      {admin_secret}")
        lines.append(
            "             to sign in to the console; shown only once, `streamweir admin reset-secret` creates a new one"
        )
    reason = why_unavailable()
    if reason is not None and start.config_path is None:
        lines += ["", f"  {reason}"]
    if model is not None:
        body = f'{{"model":"{model}","stream":true,"messages":[{{"role":"user","content":"{_EXAMPLE_PROMPT}"}}]}}'
        lines += [
            "",
            "Try it:",
            "",
            f'  curl -N {base}/v1/chat/completions -H "Authorization: Bearer {secret}"'
            f" -H 'Content-Type: application/json' -d '{body}'",
        ]
    scripted = next((provider.name for provider in config.providers if provider.kind == "sim"), None)
    if scripted is not None:
        for agent, command in (("Claude Code", _CLAUDE_CODE), ("Codex", _CODEX)):
            lines += ["", f"{agent} without an account (a script of the simulator writes a file):", ""]
            lines.append(f"  {command.format(base=base, secret=secret, model=f'{scripted}/agent')}")
    return "\n".join([*lines, ""])


def run_file_of(
    config: Config, start: StartOptions, listeners: list[socket.socket], probe_listeners: list[socket.socket]
) -> RunFile:
    def absolute(path: Path | None) -> str | None:
        return str(path.absolute()) if path is not None else None

    store = config.store.url
    database = None if config.store.is_none else sqlite_path(store, start.data_dir)
    return RunFile(
        pid=os.getpid(),
        version=__version__,
        started_ms=now_ms(),
        node=node_name(config),
        urls=tuple(_urls(config, listeners)),
        health_url=next((_url("http", each) for each in probe_listeners), None),
        workers=start.workers,
        data_dir=str(start.data_dir.absolute()),
        config_file=absolute(start.config_path),
        env_file=absolute(start.env_file),
        store=f"sqlite {database}" if database is not None else masked_url(store),
    )


def _urls(config: Config, listeners: Sequence[socket.socket]) -> Iterator[str]:
    scheme = "https" if config.server.tls is not None else "http"
    return (_url(scheme, each) for each in listeners)


def _url(scheme: str, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _metrics_access(config: Config) -> str:
    if config.server.metrics_public:
        return "for everybody"
    secret = "" if config.store.is_none else "the admin secret or "
    local = "; from this machine without a key" if config.server.metrics_local else ""
    return f"with {secret}a key with the scope 'metrics' or 'admin'{local}"


def _model_to_try(config: Config) -> str | None:
    for kind, model in (("local", "smollm2"), ("sim", "hello")):
        for provider in config.providers:
            if provider.kind == kind:
                return f"{provider.name}/{model}"
    return next((model.id for model in config.models if not is_pattern(model.id)), None)
