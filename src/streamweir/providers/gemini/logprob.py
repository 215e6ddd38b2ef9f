"""`logprobsResult` in the format of OpenAI's `logprobs`."""

from typing import Any


def logprobs_of(result: dict[str, Any]) -> dict[str, Any] | None:
    """None if no token can be read."""
    chosen = _tokens(result.get("chosenCandidates"))
    tops = result.get("topCandidates")
    content = []
    for number, token in enumerate(chosen):
        top = tops[number] if isinstance(tops, list) and number < len(tops) else None
        others = _tokens(top.get("candidates")) if isinstance(top, dict) else []
        content.append({**token, "top_logprobs": others})
    return {"content": content, "refusal": None} if content else None


def _tokens(value: object) -> list[dict[str, Any]]:
    return [_token(item) for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _token(item: dict[str, Any]) -> dict[str, Any]:
    text = item.get("token")
    text = text if isinstance(text, str) else ""
    logprob = item.get("logProbability")
    is_number = isinstance(logprob, int | float) and not isinstance(logprob, bool)
    # A log probability of 0 (certain) is the default value, so it may be absent.
    return {
        "token": text,
        "logprob": logprob if is_number else 0.0,
        "bytes": list(text.encode("utf-8", "replace")),
    }
