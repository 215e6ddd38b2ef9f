"""Headers that the operator sets for requests to a provider or a target: which names and values can be sent.

A reason never contains a value.
"""

import re
from collections.abc import Iterator, Mapping

from streamweir.config.error import ConfigProblem, member

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_RESERVED = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""What describes the connection and the body: the gateway sets it itself."""
_PRICED = frozenset({"x-amzn-bedrock-performanceconfig-latency", "x-amzn-bedrock-service-tier"})
"""As the members of the body are refused that do the same."""


def check_headers(headers: Mapping[str, str], where: str) -> Iterator[ConfigProblem]:
    seen: set[str] = set()
    for name, value in headers.items():
        fault = fault_of_header_name(name)
        if fault is not None:
            yield ConfigProblem(member(where, name), fault)
        elif name.lower() in seen:
            yield ConfigProblem(member(where, name), "is set twice: header names are case-insensitive")
        elif not is_valid_header_value(value):
            yield ConfigProblem(member(where, name), "contains a character that cannot be sent, such as a line break")
        seen.add(name.lower())


def fault_of_header_name(name: str) -> str | None:
    """Why this header cannot be set. None: it can."""
    if not _NAME.fullmatch(name):
        return "is not the name of a header"
    if name.lower() in _PRICED:
        return "changes the price at which the request was admitted"
    return "is a header that the gateway sets itself" if name.lower() in _RESERVED else None


def is_valid_header_value(value: str) -> bool:
    return value.isascii() and (value == "" or value.isprintable())
