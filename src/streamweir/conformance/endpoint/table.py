"""All rules for a probe session, in the order of the report."""

from streamweir.conformance.endpoint import buffered, delivery, parameters, refusals
from streamweir.conformance.probe_session import ProbeSession
from streamweir.conformance.rule import Rule
from streamweir.frontends.chat.dialect import Dialect

RULES: tuple[Rule[ProbeSession, Dialect], ...] = (*refusals.RULES, *parameters.RULES, *buffered.RULES, *delivery.RULES)
