"""Log probabilities and citations of a text, from the format of chat completions."""

from typing import Any

Document = dict[str, Any]


def logprobs_in(logprobs: Any) -> list[Document]:
    """Of the tokens of a text."""
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    return [_logprob(token) for token in tokens if isinstance(token, dict)] if isinstance(tokens, list) else []


def annotations_in(fields: dict[str, Any]) -> list[Document]:
    """Of the members of a delta. A citation is flat here."""
    sent = fields.get("annotations")
    return [_flat(each) for each in sent if isinstance(each, dict)] if isinstance(sent, list) else []


def _logprob(token: Document) -> Document:
    top = token.get("top_logprobs")
    members = {name: token.get(name) for name in ("token", "bytes", "logprob")}
    members["bytes"] = members["bytes"] if isinstance(members["bytes"], list) else []
    tops = [each for each in top if isinstance(each, dict)] if isinstance(top, list) else []
    return {**members, "top_logprobs": [_top(each) for each in tops]}


def _top(token: Document) -> Document:
    sent = token.get("bytes")
    return {
        "token": token.get("token"),
        "bytes": sent if isinstance(sent, list) else [],
        "logprob": token.get("logprob"),
    }


def _flat(annotation: Document) -> Document:
    kind = annotation.get("type")
    inner = annotation.get(kind) if isinstance(kind, str) else None
    return {"type": kind, **inner} if isinstance(inner, dict) else annotation
