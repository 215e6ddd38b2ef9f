"""All rules for one recorded answer of the Responses API, in the order of the report."""

from streamweir.conformance.api_group import shared
from streamweir.conformance.responses.document import FAILURE, WHOLE
from streamweir.conformance.responses.group import ResponsesRule
from streamweir.conformance.responses.item import ITEM, OUTPUT
from streamweir.conformance.responses.part import CALL, DELTA, PART
from streamweir.conformance.responses.response import COUNT, ERROR, RESPONSE
from streamweir.conformance.responses.stream import EVENT, SEQUENCE
from streamweir.conformance.rules.framing import FRAMING
from streamweir.conformance.rules.header import HEADER

SHARED: tuple[ResponsesRule, ...] = (
    *shared(FRAMING.rules, without=("framing.no-event-field",)),
    *shared(HEADER.rules, without=()),
)
_GROUPS = (EVENT, SEQUENCE, RESPONSE, ITEM, PART, DELTA, CALL, OUTPUT, COUNT, ERROR, WHOLE, FAILURE)
OWN: tuple[ResponsesRule, ...] = tuple(rule for group in _GROUPS for rule in group.rules)
RULES: tuple[ResponsesRule, ...] = (*SHARED, *OWN)
