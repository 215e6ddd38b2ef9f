"""All rules for one recorded answer of the Messages API, in the order of the report."""

from streamweir.conformance.api_group import shared
from streamweir.conformance.messages.block import BLOCK, CALL, DELTA, SIGNATURE
from streamweir.conformance.messages.document import FAILURE, HEADER, WHOLE
from streamweir.conformance.messages.group import MessagesRule
from streamweir.conformance.messages.stream import COUNT, ERROR, EVENT, START, STOP
from streamweir.conformance.rules.framing import FRAMING
from streamweir.conformance.rules.header import HEADER as CHAT_HEADER

SHARED = (
    *shared(FRAMING.rules, without=("framing.no-event-field",)),
    *shared(CHAT_HEADER.rules, without=("header.request-id",)),
)
_GROUPS = (EVENT, START, BLOCK, DELTA, SIGNATURE, CALL, STOP, COUNT, ERROR, WHOLE, FAILURE, HEADER)
OWN: tuple[MessagesRule, ...] = tuple(rule for group in _GROUPS for rule in group.rules)
RULES: tuple[MessagesRule, ...] = (*SHARED, *OWN)
