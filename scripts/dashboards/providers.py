"""How providers answer."""

from scripts.dashboards.panel import OF_JOB, OF_TARGET, Dashboard, Panel, Row, gauge_of, more, quantile, rate, share

PROVIDERS = Dashboard(
    "providers",
    "Providers",
    "How providers answer: attempts and their errors, ejections, credentials, limits and latency.",
    (
        Row(
            "Health",
            (
                Panel(
                    "Targets that get requests",
                    {"{{target}}": f'max by (target) (streamweir_target_state{{{OF_TARGET},state="available"}})'},
                    about="Red: ejected, paused or being tried again, in every process.",
                    kind="states",
                    limit=1.0,
                    is_low_bad=True,
                ),
                Panel(
                    "Credentials that get requests",
                    {
                        "{{provider}} / {{credential}}": gauge_of(
                            "credential_available", "provider", "credential", how="max"
                        )
                    },
                    about="Of providers with several API keys.",
                    kind="states",
                    limit=1.0,
                    is_low_bad=True,
                ),
            ),
        ),
        Row(
            "Attempts",
            (
                Panel(
                    "Attempts by target",
                    {"{{target}}": rate("upstream_attempts_total", OF_TARGET, "target")},
                    "reqps",
                    kind="stack",
                ),
                Panel(
                    "Attempts by error",
                    {"{{outcome}}": rate("upstream_attempts_total", f'{OF_TARGET},outcome!="ok"', "outcome")},
                    "reqps",
                    kind="stack",
                ),
                Panel(
                    "Failed attempts, by target",
                    {
                        "{{target}}": share(
                            rate("upstream_attempts_total", f'{OF_TARGET},outcome!="ok"', "target"),
                            rate("upstream_attempts_total", OF_TARGET, "target"),
                        )
                    },
                    "percentunit",
                    most=1.0,
                ),
                Panel(
                    "Ejections of targets", {"{{target}}": more("ejections_total", OF_TARGET, "target")}, kind="bars"
                ),
                Panel(
                    "Ejections of credentials",
                    {
                        "{{provider}} / {{credential}}": more(
                            "credential_ejections_total", OF_JOB, "provider", "credential"
                        )
                    },
                    kind="bars",
                ),
                Panel(
                    "Left out at a configured limit",
                    {"{{target}} {{reason}}": rate("target_skips_total", OF_TARGET, "target", "reason")},
                    "reqps",
                ),
            ),
        ),
        Row(
            "Latency",
            (
                Panel(
                    "Time to the first token, p50",
                    {"{{target}}": quantile(0.5, "time_to_first_token_seconds", OF_TARGET, "target")},
                    "s",
                ),
                Panel(
                    "Time to the first token, p95",
                    {"{{target}}": quantile(0.95, "time_to_first_token_seconds", OF_TARGET, "target")},
                    "s",
                ),
                Panel(
                    "Duration of requests, p95",
                    {"{{target}}": quantile(0.95, "request_duration_seconds", OF_TARGET, "target")},
                    "s",
                ),
            ),
        ),
        Row(
            "Connections",
            (
                Panel(
                    "Connections in use",
                    {"{{provider}}": gauge_of("upstream_connections", "provider", selector=f'{OF_JOB},state="in_use"')},
                ),
                Panel(
                    "Idle connections",
                    {"{{provider}}": gauge_of("upstream_connections", "provider", selector=f'{OF_JOB},state="idle"')},
                ),
            ),
        ),
    ),
)
