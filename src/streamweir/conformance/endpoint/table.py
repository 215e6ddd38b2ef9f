"""All rules over an interview, in the order in which a report shows them."""

from streamweir.conformance.endpoint import asked, buffered, line, refused
from streamweir.conformance.probe_session import ProbeSession
from streamweir.conformance.rule import Rule

RULES: tuple[Rule[ProbeSession], ...] = (*refused.RULES, *asked.RULES, *buffered.RULES, *line.RULES)
