"""Whether a provider's text about a refusal can be the caller's own words.

Some refusals are known by their text alone, and a text can quote the request: the name of a member, or a value. Then it
says nothing about the target or the credential that others use as well. Pure; only a bounded part of a body is read.
"""

import re
from collections.abc import Mapping

from streamweir.core.request import ChatRequest

OF_CREDENTIAL = re.compile(r"quota|balance|credit|billing|api.?key", re.IGNORECASE)
"""Every text by which an account without credit or a wrong key is recognised has one of these (`providers.failure`)."""
OF_WIRE = re.compile(r"v1/responses|unsupported_api_for_model|chatCompletion operation", re.IGNORECASE)
"""Likewise a refusal of an API (`providers.openai.provider`)."""
_MAX_READ = 64 * 1024


def may_be_quoted(chat: ChatRequest, words: re.Pattern[str]) -> bool:
    """The caller's body has such words, or is too large to know."""
    return _has(chat.body, words) or (chat.native is not None and _has(chat.native.body, words))


def _has(body: object, words: re.Pattern[str]) -> bool:
    unread, left = [body], _MAX_READ
    while unread:
        value = unread.pop()
        if isinstance(value, str | Mapping | list | tuple):
            left -= 1 + len(value)
        if left < 0:
            return True
        if isinstance(value, str):
            if words.search(value) is not None:
                return True
        elif isinstance(value, Mapping):
            unread += (*value.keys(), *value.values())
        elif isinstance(value, list | tuple):
            unread += value
    return False
