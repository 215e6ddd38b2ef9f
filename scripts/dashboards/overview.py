"""What a person on call looks at first."""

from scripts.dashboards.panel import (
    OF_JOB,
    OF_MODEL,
    OF_REQUEST,
    OF_TARGET,
    Dashboard,
    Panel,
    Row,
    burn,
    gauge_of,
    percentiles,
    quantile,
    rate,
    share,
)

_FAILED = f'{OF_REQUEST},verdict!~"completed|length|filtered|rejected|client_gone|stopped"'
_AVAILABLE = f'max by (target) (streamweir_target_state{{{OF_TARGET},state="available"}})'

OVERVIEW = Dashboard(
    "overview",
    "Overview",
    "Is it well? Requests, errors, time to the first token, tokens and refusals.",
    (
        Row(
            "Now",
            (
                Panel("Requests", {"": rate("requests_total", OF_REQUEST)}, "reqps", kind="number"),
                Panel(
                    "Failed",
                    {
                        "": share(
                            f"({rate('requests_total', _FAILED)} or vector(0))", rate("requests_total", OF_REQUEST)
                        )
                    },
                    "percentunit",
                    "Not because of the caller.",
                    "number",
                    limit=0.01,
                ),
                Panel(
                    "First token, p95",
                    {"": quantile(0.95, "time_to_first_token_seconds", OF_TARGET)},
                    "s",
                    kind="number",
                    limit=5.0,
                ),
                Panel("Open streams", {"": gauge_of("open_streams")}, kind="number"),
                Panel(
                    "Targets without requests",
                    {"": f"count({_AVAILABLE} == 0) or vector(0)"},
                    about="Ejected, paused or being tried again, in every process.",
                    kind="number",
                    limit=1.0,
                ),
                Panel("Nodes", {"": f"count(streamweir_build_info{{{OF_JOB}}})"}, kind="number"),
            ),
        ),
        Row(
            "Requests",
            (
                Panel(
                    "Requests by outcome",
                    {"{{verdict}}": rate("requests_total", OF_REQUEST, "verdict")},
                    "reqps",
                    kind="stack",
                ),
                Panel(
                    "Failed requests by target",
                    {"{{target}}": rate("requests_total", _FAILED, "target")},
                    "reqps",
                    kind="stack",
                ),
                Panel(
                    "Requests by model",
                    {"{{model}}": rate("requests_total", OF_REQUEST, "model")},
                    "reqps",
                    kind="stack",
                ),
                Panel(
                    "Refused requests by error",
                    {"{{code}}": rate("requests_rejected_total", OF_JOB, "code")},
                    "reqps",
                    "Before a provider was called. With `overloaded`: those that had been read.",
                    "stack",
                ),
                Panel(
                    "Refused because of overload",
                    {"{{reason}}": rate("overload_refusals_total", OF_JOB, "reason")},
                    "reqps",
                    kind="stack",
                ),
                Panel(
                    "Requests by API",
                    {"{{dialect}}": rate("requests_total", OF_REQUEST, "dialect")},
                    "reqps",
                    kind="stack",
                ),
            ),
        ),
        Row(
            "Time",
            (
                Panel(
                    "Time to the first token",
                    percentiles("time_to_first_token_seconds", OF_TARGET, 0.5, 0.95, 0.99),
                    "s",
                ),
                Panel("Duration of requests", percentiles("request_duration_seconds", OF_TARGET, 0.5, 0.95, 0.99), "s"),
                Panel("Time between chunks", percentiles("time_between_chunks_seconds", OF_JOB, 0.5, 0.95, 0.99), "s"),
            ),
        ),
        Row(
            "Load",
            (
                Panel(
                    "Tokens by kind",
                    {"{{kind}}": rate("tokens_total", OF_MODEL, "kind")},
                    "short",
                    "Per second, when requests end.",
                    "stack",
                ),
                Panel("Open streams by node", {"{{instance}}": gauge_of("open_streams", "instance")}, kind="stack"),
                Panel(
                    "Connections to providers",
                    {"{{provider}} {{state}}": gauge_of("upstream_connections", "provider", "state")},
                    kind="stack",
                ),
            ),
        ),
        Row(
            "Objectives",
            (
                Panel(
                    "Error budget used, times the allowed rate",
                    burn("requests_failed"),
                    "short",
                    "Over one hour. Needs the rules of deploy/prometheus.",
                    limit=14.4,
                ),
                Panel(
                    "First token budget used, times the allowed rate",
                    burn("first_token_slow"),
                    "short",
                    "Over one hour. Needs the rules of deploy/prometheus.",
                    limit=14.4,
                ),
            ),
        ),
    ),
)
