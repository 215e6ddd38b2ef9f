"""All rules for one recorded answer, in the order of the report."""

from streamweir.conformance.parsed_answer import ParsedAnswer
from streamweir.conformance.rule import Rule
from streamweir.conformance.rules.delta import DELTA
from streamweir.conformance.rules.error import ERROR, FAILURE
from streamweir.conformance.rules.framing import FRAMING, KEEPALIVE
from streamweir.conformance.rules.header import HEADER
from streamweir.conformance.rules.identity import IDENTITY
from streamweir.conformance.rules.order import END, FINISH, ORDER
from streamweir.conformance.rules.text import LOGPROBS, REASONING, REFUSAL
from streamweir.conformance.rules.tool import TOOL
from streamweir.conformance.rules.usage import USAGE
from streamweir.conformance.rules.whole import WHOLE
from streamweir.frontends.chat.dialect import Dialect

STREAM_CHAPTERS = (
    FRAMING,
    KEEPALIVE,
    IDENTITY,
    ORDER,
    DELTA,
    TOOL,
    REASONING,
    REFUSAL,
    LOGPROBS,
    FINISH,
    USAGE,
    ERROR,
    END,
)
_CHAPTERS = (*STREAM_CHAPTERS, HEADER, WHOLE, FAILURE)

STREAM_RULES: tuple[Rule[ParsedAnswer, Dialect], ...] = tuple(
    rule for chapter in STREAM_CHAPTERS for rule in chapter.rules
)
RULES: tuple[Rule[ParsedAnswer, Dialect], ...] = tuple(rule for chapter in _CHAPTERS for rule in chapter.rules)
