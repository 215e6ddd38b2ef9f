"""A failed response, with all that the operator needs of it: the error, the status, and the provider's own id.

The id is what a provider's support asks for. Its header has many names. A body that is no JSON is not the API's own: it
is the page of a proxy or a load balancer. Its text is reported too.
"""

import re
from collections.abc import Callable, Mapping

from msgspec import structs

from streamweir.core.errors import ErrorReport, StreamweirError

ReadError = Callable[[int, Mapping[str, str], bytes], StreamweirError]

MAX_ID_LENGTH = 128
_ID_HEADERS = (
    "x-request-id",  # OpenAI and most others
    "request-id",  # Anthropic
    "apim-request-id",  # Azure
    "x-ms-request-id",
    "x-amzn-requestid",  # Bedrock
    "x-goog-request-id",
    "mistral-correlation-id",
    "msh-request-id",  # Moonshot
    "x-ds-trace-id",  # DeepSeek
    "x-debug-trace-id",  # Cohere
    "nvcf-reqid",  # NVIDIA
    "x-generation-id",  # OpenRouter
    "x-trace-id",
    "cf-ray",  # Cloudflare, in front of many of them
)
_IS_ID_HEADER = frozenset(_ID_HEADERS)
_NOT_IN_IDS = re.compile(r"[^\x21-\x7e]+")
_MAX_TEXT_BYTES = 8192
_TITLE = re.compile(r"<title[^<>]*>([^<]+)</title", re.IGNORECASE)
_TAG = re.compile(r"<(?:script|style)\b[^<>]*>[^<]*|<[^<>]*>", re.IGNORECASE)


def request_id_in(headers: Mapping[str, str]) -> str | None:
    if _IS_ID_HEADER.isdisjoint(headers):
        return None
    for name in _ID_HEADERS:
        if name in headers:
            return _NOT_IN_IDS.sub("", headers[name])[:MAX_ID_LENGTH] or None
    return None


def read_refusal(read_error: ReadError, status: int, headers: Mapping[str, str], body: bytes) -> StreamweirError:
    """The error of a failed response, with its report."""
    error = read_error(status, headers, body)
    report = error.report or ErrorReport()
    text = report.text or _page_text(body)
    error.report = structs.replace(report, text=text, status=status, request_id=request_id_in(headers))
    return error


def _page_text(body: bytes) -> str:
    text = body[:_MAX_TEXT_BYTES].decode("utf-8", "replace").strip()
    if text.startswith(("{", "[")):  # JSON without a message
        return ""
    if not text.startswith("<"):
        return text
    title = _TITLE.search(text)
    return " ".join((title[1] if title is not None else _TAG.sub(" ", text)).split())
