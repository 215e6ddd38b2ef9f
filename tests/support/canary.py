"""Secrets that are known at sight, wherever a secret can stand, and the search for them in all that comes out.

A canary is looked for as it is and in the forms that a careless program would write it in: quoted for a
URL, in base 64 at any place of a longer text, in hex. What a test makes while it runs (a key of the
store, the cookie of a session) it adds itself. The scripted upstream quotes what it should not.
"""

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from streamweir.store.db.base import Store
from support.answers import (
    anthropic_error_body,
    anthropic_stream,
    error_body,
    error_frame,
    gemini_error_body,
    gemini_stream,
    openai_frames,
    openai_stream,
    openai_whole,
)
from support.gateway import chat_request
from support.key_store import dump
from support.script import End, Fin, Hang, Head, Rst, Seen, Send, Step, stream, whole
from support.scripted_upstream import closed_port

CANARIES = {
    "key of a caller": "sk-canary-Caller0123456789abcdef",
    "another form of it": "canaryOpaque4f9d1c7b2a8e6053d7f1",
    "key of a caller that is not good": "sk-canary-Unknown0123456789abcd",
    "key that has expired": "sk-canary-Expired0123456789abcd",
    "key of a provider": "sk-proj-canaryOpenai0123456789ab",
    "another provider's": "sk-ant-canary03-0123456789abcdef",
    "a third one's": "AIzaCanaryGemini0123456789abcdef",
    "header of the operator": "canaryHeader9c2f4e6a8b0d1357fedc",
    "password of a proxy": "canary-proxy-password",
    "prompt": "canary walrus under the ice",
    "instructions": "canary pelican over the sea",
    "result of a tool": "canary heron beside the weir",
    "answer": "canary otter in the reeds",
    "user": "canary-person@mail.example",
    "link to an image": "https://files.example/canary.png?sig=canary-signature",
    "cookie": "session=canaryCookie0123456789",
    "query string": "canaryQuery0123456789",
    "host of a provider": "canary-host.invalid",
}
ANSWERS_MAY_HOLD = ("answer",)
LOGS_MAY_HOLD = ("host of a provider",)
"""Operators need it; callers must not see it."""
C = CANARIES
QUOTED = f"Bad key {C['key of a provider']} at https://{C['host of a provider']}/v1 of {C['header of the operator']}: "

MESSAGES = [
    {"role": "system", "content": C["instructions"]},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": C["prompt"]},
            {"type": "image_url", "image_url": {"url": C["link to an image"]}},
        ],
    },
    {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": C["result of a tool"]},
]
HEADERS = (("cookie", C["cookie"]), ("x-forwarded-for", "198.51.100.7"), ("x-request-id", C["key of a caller"]))
STATUSES = (400, 401, 403, 404, 429, 500, 503)
TROUBLES = ("redirect", "html", "empty", "cut", "reset", "silent", "broken", "error", "whole-error", "cookies")
PATH = f"/v1/chat/completions?key={C['query string']}"


class CanarySet:
    """The canaries that may be anywhere, and where none of them may be."""

    def __init__(self, *, without: tuple[str, ...] = ()) -> None:
        self.canaries = {name: text for name, text in CANARIES.items() if name not in without}

    def add(self, **canaries: str) -> None:
        self.canaries |= {name.replace("_", " "): text for name, text in canaries.items()}

    def hits(self, text: str | bytes, *except_for: str) -> list[str]:
        """The names of those that are in it, in any form."""
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        return [
            name
            for name, canary in self.canaries.items()
            if name not in except_for and any(form in data for form in forms_of(canary))
        ]


def forms_of(canary: str) -> Iterator[bytes]:
    data = canary.encode()
    yield data
    yield quote(canary, safe="").encode()
    yield data.hex().encode()
    for before in range(3):  # where it begins decides about every letter: those that hold nothing else are left
        letters = base64.b64encode(b"\0" * before + data)
        yield letters[-(-before * 8 // 6) : len(letters) - 4]


def files_of(folder: Path) -> dict[str, bytes]:
    """All that lies there, by its name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def rows_of(store: Store) -> dict[str, str]:
    """Every row of every table, by the table's name; what is compressed besides as what it says."""
    return {name: "\n".join(map(_told, rows)) for name, rows in (await dump(store)).items()}


def _told(row: tuple[object, ...]) -> str:
    return " | ".join(_unpacked(value) if isinstance(value, bytes) else str(value) for value in row)


def _unpacked(data: bytes) -> str:
    try:
        return zlib.decompress(data).decode()
    except zlib.error:
        return f"{data.decode('latin-1')} {data.hex()}"


def providers_toml(upstream: str) -> str:
    """Three kinds whose keys and headers are canaries, one behind a proxy that is not there, one that nobody finds."""
    kinds = [("openai", "key of a provider"), ("anthropic", "another provider's"), ("gemini", "a third one's")]
    providers = "".join(
        f'[[providers]]\nname = "{kind}"\nkind = "{kind}"\nbase_url = "{upstream}"\napi_key = "{C[key]}"\n'
        f'headers = {{ x-team = "{C["header of the operator"]}" }}\n'
        for kind, key in kinds
    )
    return f"""
[server]
trusted_proxies = ["127.0.0.1"]
[server.timeouts]
idle_s = 0.1
silence_s = 0.1
{providers}
[[providers]]
name = "proxied"
kind = "openai"
base_url = "http://{C["host of a provider"]}/v1"
proxy = "http://someone:{C["password of a proxy"]}@127.0.0.1:{closed_port()}"
api_key = "{C["key of a provider"]}"
[[providers]]
name = "lost"
kind = "openai"
base_url = "http://{C["host of a provider"]}/v1"
api_key = "{C["key of a provider"]}"
"""


KEYS_TOML = f"""
[[keys]]
name = "first"
key = "{C["key of a caller"]}"
[[keys]]
name = "second"
key = "{C["another form of it"]}"
rpm = 1
[[keys]]
name = "third"
key = "{C["key that has expired"]}"
expires = 2020-01-01T00:00:00Z
"""


def script(request: Seen) -> list[Step]:
    """What the model's name says. Errors quote what they should not."""
    model = (
        request.path.rpartition("models/")[2].partition(":")[0] if "models/" in request.path else request.json["model"]
    )
    quoted = QUOTED + model
    started = Send(b"".join(openai_frames([C["answer"]])[:2]))
    if model.isdecimal():
        bodies = {"anthropic": anthropic_error_body(quoted), "gemini": gemini_error_body(quoted, 400)}
        kind = "anthropic" if "messages" in request.path else "gemini" if "models/" in request.path else "openai"
        return whole(bodies.get(kind, error_body(quoted)), int(model))
    odd: dict[str, list[Step]] = {
        "redirect": whole(b"", 307, [("location", f"http://{C['host of a provider']}/")]),
        "html": [Head(200, "text/html"), Send(quoted.encode()), End()],
        "empty": [Head(), End()],
        "cut": [Head(), started, Fin()],
        "reset": [Head(), started, Rst()],
        "silent": [Head(), started, Hang()],
        "broken": [Head(), started, Send(b"data: {%b\n\n" % quoted.encode()), Hang()],
        "error": [Head(), started, Send(error_frame(error_body(quoted))), End()],
        "whole-error": whole(error_body(quoted)),
        "cookies": [Head(headers=[("set-cookie", C["cookie"]), ("x-key", C["key of a provider"])]), started, Fin()],
    }
    if model in odd:
        return odd[model]
    if "messages" in request.path:
        return stream(anthropic_stream([C["answer"]]))
    if "models/" in request.path:
        return stream(gemini_stream([C["answer"]]))
    return stream(openai_stream([C["answer"]])) if request.json.get("stream") else whole(openai_whole(C["answer"]))


def ask(model: str, key: str | None, headers: tuple[tuple[str, str], ...] = HEADERS, **members: Any) -> bytes:
    body: Mapping[str, Any] = {"messages": MESSAGES, "user": C["user"], **members}
    return chat_request(path=PATH, key=key, headers=headers, model=model, **body)


def requests() -> list[bytes]:
    """Answers and failures of every kind, and what is refused before anybody is asked."""
    key = C["key of a caller"]
    good: dict[str, Any] = {"messages": MESSAGES, "user": C["user"]}
    bodies = [
        b"{" + C["prompt"].encode(),
        json.dumps({**good, "model": "openai/m", "temperature": C["prompt"]}).encode(),
        json.dumps({**good, "model": "openai/m", "max_tokens": C["key of a caller"]}).encode(),
        json.dumps({**good, "model": "openai/m", "api_key": C["key of a provider"]}).encode(),
        json.dumps({**good, "model": "openai/m", "messages": [{"role": "king", "content": C["prompt"]}]}).encode(),
        json.dumps({**good, "model": "openai/m", "tool_choice": C["prompt"]}).encode(),
        json.dumps({**good, "model": "openai/m", "response_format": {"type": 1, "is": C["prompt"]}}).encode(),
    ]
    bare = f"host: gateway\r\nauthorization: Bearer {key}\r\ncookie: {C['cookie']}\r\n\r\n"
    return [
        *(ask(f"{kind}/m", key, stream=True) for kind in ("openai", "anthropic", "gemini")),
        ask("openai/m", key),
        *(ask(f"{kind}/{place}", key, stream=True) for kind in ("openai", "anthropic", "gemini") for place in STATUSES),
        *(ask(f"openai/{place}", key, stream=True) for place in TROUBLES),
        *(ask(f"openai/{place}", key) for place in ("400", "401", "500", "html", "redirect", "cut")),
        *(ask(f"{name}/m", key) for name in ("proxied", "lost", "nobody")),
        *(ask("openai/m", C[name]) for name in ("key of a caller that is not good", "key that has expired")),
        *(ask("openai/m", C["another form of it"]) for _ in range(2)),
        *(chat_request(path=PATH, key=key, headers=HEADERS, body=body) for body in bodies),
        chat_request(path=PATH, key=None, headers=(*HEADERS, ("x-api-key", C["key of a caller that is not good"]))),
        chat_request(path=PATH, key=key, headers=(("content-encoding", C["prompt"]),), body=b"{}"),
        *(
            f"GET /{place}?token={C['query string']} HTTP/1.1\r\n{bare}".encode()
            for place in ("metrics", "v1/models", "health")
        ),
        *(
            f"DELETE /{place}?token={C['query string']} HTTP/1.1\r\n{bare}".encode()
            for place in ("v1/models", "nothing", "v1/x")
        ),
        f"GET /v1/models HTTP/1.1\r\nbroken {key}\r\n\r\n".encode(),
        f"GET /v1/models HTTP/1.1\r\nhost: {C['cookie']}\r\n\r\n".encode(),
    ]
