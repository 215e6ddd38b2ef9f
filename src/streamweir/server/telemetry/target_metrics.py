"""The metrics about the health of targets and credentials, as the router of this process sees it when they are read.

Only those of the configuration: callers can name other targets.
"""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from streamweir.policy.routing.router import TARGET_STATES, Router
from streamweir.server.telemetry.metric_families import gauge
from streamweir.server.telemetry.sanitize import clean


def target_families(router: Router, now: float) -> Iterator[Metric]:
    """`now`: of the router's clock."""
    about = "1 for the state of a target: it gets requests, is tried again, pauses as asked, or is ejected."
    rows = [
        ((clean(provider), clean(target), each), int(each == state))
        for provider, target, state in router.target_states(now)
        for each in TARGET_STATES
    ]
    yield gauge("target_state", about, ("provider", "target", "state"), rows)
    about = "Whether a credential of a provider with several gets requests (1) or is ejected (0)."
    credentials = [((provider, clean(name)), int(is_free)) for provider, name, is_free in router.credentials(now)]
    yield gauge("credential_available", about, ("provider", "credential"), credentials)
