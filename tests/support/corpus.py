"""Where the recorded provider responses are, and which of them there are.

They are not part of the project: `STREAMWEIR_CORPUS`, else `../shared/corpus` beside the
project's root. Where neither is there, tests say so and are skipped.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PARTS = 12
"""Of the recordings: `make test` takes one (`support.soak`)."""
FAMILIES = ("openai-chat", "anthropic-messages", "gemini", "openai-responses")
ROOT = Path(os.environ.get("STREAMWEIR_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")
WHY_MISSING = f"no recordings at {ROOT} (set STREAMWEIR_CORPUS)"


@dataclass(frozen=True)
class Recording:
    file: str
    family: str
    provider: str
    is_edited: bool
    is_whole: bool
    is_error: bool

    @property
    def name(self) -> str:
        return f"{'whole' if self.is_whole else 'stream'}/{Path(self.file).name}"

    def body(self) -> bytes:
        body = (ROOT / self.file).read_bytes()
        if not self.is_whole:
            return body
        wrapper: dict[str, Any] = json.loads(body)
        text = wrapper.get("response_text")
        return (text if isinstance(text, str) else json.dumps(wrapper["response"])).encode()


def recordings() -> list[Recording]:
    """Every recorded answer of the four families; none where the corpus is missing."""
    manifest = ROOT / "manifest.json"
    if not manifest.is_file():
        return []
    found = []
    for entry in json.loads(manifest.read_bytes()):
        family = entry["family"].removeprefix("buffered/")
        if family in FAMILIES:
            found.append(
                Recording(
                    file=entry["file"],
                    family=family,
                    provider=entry["provider"],
                    is_edited=entry["provenance"] == "fixture-edited",
                    is_whole=entry["family"].startswith("buffered/"),
                    is_error=entry["file"].endswith(".error.json"),
                )
            )
    return found
