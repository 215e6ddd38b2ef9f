"""The groups of rules of the Responses API, and what their modules share."""

from streamweir.conformance.api_group import ApiGroup
from streamweir.conformance.recording import Kind
from streamweir.conformance.responses.answer import Item, ResponsesAnswer
from streamweir.conformance.responses.api import ResponsesApi
from streamweir.conformance.rule import Rule

ResponsesRule = Rule[ResponsesAnswer, ResponsesApi]
STREAMING = "Responses API, streaming events"
REFERENCE = "Responses API, the response object"
ERRORS = "Responses API, errors"


class ResponsesGroup(ApiGroup[ResponsesAnswer, ResponsesApi]):
    def __init__(self, group: str, *kinds: Kind) -> None:
        super().__init__(group, *kinds, source=STREAMING)


def items_of(answer: ResponsesAnswer, *kinds: str) -> list[Item]:
    """In the order of their indexes. Without `kinds`: all."""
    return [item for _, item in sorted(answer.items.items()) if not kinds or item.kind in kinds]
