"""Tool names that other families do not accept: shortened in requests and restored in answers."""

import hashlib
import re

_PLAIN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_KEPT = 55


class ToolNames:
    def __init__(self) -> None:
        self.own: dict[str, str] = {}
        """The caller's names of tools that are sent under another name."""

    def sent(self, name: str) -> str:
        if _PLAIN.fullmatch(name):
            return name
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        sent = f"{_NOT_IN_NAME.sub('_', name)[:_KEPT]}_{digest}"
        self.own[sent] = name
        return sent
