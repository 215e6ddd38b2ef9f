"""All rules over an interview, in the order in which a report shows them."""

from streamweir.conformance.endpoint import buffered, delivery, parameters, refusals
from streamweir.conformance.probe_session import ProbeSession
from streamweir.conformance.rule import Rule

RULES: tuple[Rule[ProbeSession], ...] = (*refusals.RULES, *parameters.RULES, *buffered.RULES, *delivery.RULES)
