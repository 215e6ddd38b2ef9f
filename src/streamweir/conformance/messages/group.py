"""The groups of rules of the Messages API."""

from streamweir.conformance.api_group import ApiGroup
from streamweir.conformance.messages.answer import MessagesAnswer
from streamweir.conformance.messages.api import MessagesApi
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Rule

MessagesRule = Rule[MessagesAnswer, MessagesApi]
STREAMING = "Messages API, streaming"
REFERENCE = "Messages API, the response"
ERRORS = "Messages API, errors"


class MessagesGroup(ApiGroup[MessagesAnswer, MessagesApi]):
    def __init__(self, group: str, *kinds: Kind) -> None:
        super().__init__(group, *kinds, source=STREAMING)
