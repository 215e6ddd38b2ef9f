"""All rules over an interview, in the order in which a report shows them."""

from streamweir.conformance.endpoint import asked, buffered, line, refused
from streamweir.conformance.interview import Interview
from streamweir.conformance.rule import Rule

RULES: tuple[Rule[Interview], ...] = (*refused.RULES, *asked.RULES, *buffered.RULES, *line.RULES)
