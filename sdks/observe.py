"""What every Python driver shares: a job comes in, one line per check goes out.

A driver uses its SDK as a user would and says what it saw; it judges nothing (that is `judge.py`,
once for all SDKs). The job is one JSON document on standard input:

    {"base_url", "key", "wrong_key", "prompt", "max_tokens", "tool": {"name", "description", "parameters"},
     "schema": of structured output, "inputs": to embed, "models": {check: model}}

and each line on standard output one of

    {"check", "saw": ...}       what the SDK gave, in the shape that `judge.py` names for this check
    {"check", "raised": ...}    the SDK's own error (the drivers name its class), from `raised`
    {"check", "absent": why}    the SDK has no way to show this
    {"check", "crashed": why}   anything else that was raised
    {"check", "unknown": true}  the driver has no such check
"""

import json
import sys
from collections.abc import Callable
from typing import Any

Job = dict[str, Any]
Seen = dict[str, Any]


def run(checks: dict[str, Callable[[Job, str], Seen]]) -> None:
    """Runs the checks that the job asks for, in its order."""
    job: Job = json.load(sys.stdin)
    for check, model in job["models"].items():
        try:
            seen = checks[check](job, model) if check in checks else {"unknown": True}
        except Exception as error:  # noqa: BLE001 - whatever it is, the SDK's user would have met it
            seen = {"crashed": _line(f"{_name_of(error)}: {error}")}
        sys.stdout.write(json.dumps({"check": check, **seen}) + "\n")
        sys.stdout.flush()


def saw(**members: object) -> Seen:
    return {"saw": members}


def raised(error: BaseException, status: int | None = None, before: str = "") -> Seen:
    """`before`: the text that had arrived when it was raised."""
    return {"raised": {"type": _name_of(error), "status": status, "message": _line(str(error)), "before": before}}


def absent(why: str) -> Seen:
    return {"absent": why}


def _name_of(error: BaseException) -> str:
    return f"{type(error).__module__.partition('.')[0]}.{type(error).__qualname__}"


def _line(text: str) -> str:
    return " ".join(text.split())[:300]
