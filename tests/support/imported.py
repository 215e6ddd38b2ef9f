"""Configurations of LiteLLM, as files, and values for the variables of what is made of them.

The files are written after the examples of LiteLLM's documentation, and after what else was seen.
"""

import re
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "fixtures" / "litellm"
CASES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
_VALUES = {
    "BASE": "https://llm.example.com",
    "HOST": "cache.internal",
    "PROJECT": "contoso-prod",
    "REGION": "eu-central-1",
    "SECONDS": "5",
    "TPM": "50000",
    "URL": "redis://cache.internal:6379/0",
    "VERSION": "2024-10-21",
}
"""By the last known word of a name; every other variable is a secret."""


def environment(toml: str) -> dict[str, str]:
    """Something for every variable that the text needs."""
    names = set(re.findall(r"\$\{(\w+)\}", toml))
    words = {name: next((word for word in name.split("_")[::-1] if word in _VALUES), "") for name in names}
    return {name: _VALUES.get(words[name], f"made-up-{name}-4f0d1c2b9a") for name in names}
