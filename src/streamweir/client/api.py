"""The APIs that the client speaks: chat completions in any of the four dialects, Messages, and Responses. Pure.

An API is chosen by its name (`api="messages"`, `api="responses"`). It determines the path, the headers, the body and
the reader of the answer; everything else is the same.
"""

from typing import Final, Literal, get_args

from streamweir.client.reader import Limits, Reader, find_dialect
from streamweir.frontends.chat.dialect import Dialect

Api = Literal["chat", "messages", "responses"]
CHAT: Final = "chat"
MESSAGES: Final = "messages"
RESPONSES: Final = "responses"


def check_api(api: str, dialect: str | Dialect | None) -> Dialect:
    """The dialect of the answers. Raises `ValueError` for an API that does not exist, or that has no dialects."""
    if api not in get_args(Api):
        raise ValueError(f"no API is named {api!r}; there are {', '.join(get_args(Api))}")
    if api != CHAT and dialect is not None:
        raise ValueError(f"the {api.capitalize()} API has no dialects")
    return find_dialect(dialect if dialect is not None else "openai")


def make_reader(
    api: Api, dialect: str | Dialect | None, limits: Limits, *, secret: str = "", n: int | None = None
) -> Reader:
    found = check_api(api, dialect)
    if api == MESSAGES:
        from streamweir.client.messages_reader import MessagesReader  # not needed for chat completions

        return MessagesReader(limits, secret=secret)
    if api == RESPONSES:
        from streamweir.client.responses_reader import ResponsesReader

        return ResponsesReader(limits, secret=secret)
    return Reader(found, limits, secret=secret, n=n)
