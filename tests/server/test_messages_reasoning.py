"""What another family's model needs back of its reasoning goes through a Messages client and returns to that model."""

import json
from typing import Any

from support.gateway import gateway_to
from support.messages import QUESTION, ask, read_stream
from support.script import stream

CALL = {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2lnbmF0dXJl"}
ANSWER = {
    "candidates": [{"content": {"role": "model", "parts": [CALL]}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12},
    "modelVersion": "gemini-3-pro-preview-11-2025",
}
BODY = b"data: " + json.dumps(ANSWER).encode() + b"\r\n\r\n"
TOOLS = [{"name": "f", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}]


async def test_a_signature_returns_to_the_model_that_wrote_it_and_to_no_other() -> None:
    async with gateway_to(stream(BODY), kind="gemini") as (gate, up):
        message = read_stream((await ask(gate, model="up/gemini-3-pro", tools=TOOLS)).body)
        redacted, call = message["content"]
        assert (redacted["type"], call["type"], message["stop_reason"]) == ("redacted_thinking", "tool_use", "tool_use")
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "done"}
        messages: list[dict[str, Any]] = [
            *QUESTION["messages"],
            {"role": "assistant", "content": message["content"]},
            {"role": "user", "content": [result]},
        ]
        signatures = []
        for model in ("up/gemini-3-pro", "up/gemini-3-flash", "up/gemini-2.5-pro"):
            assert (await ask(gate, model=model, tools=TOOLS, messages=messages)).status == 200
            (part,) = json.loads(up.requests[-1].body)["contents"][1]["parts"]
            assert part["functionCall"]["args"] == {"a": 1}
            signatures.append(part.get("thoughtSignature"))
        assert signatures == ["c2lnbmF0dXJl", "skip_thought_signature_validator", None]
        records = await gate.settled(4)
        named = ["messages[].content[].thinking" in record.dropped for record in records]
        assert named == [False, False, True, True]
