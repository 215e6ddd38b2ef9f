"""The gateway itself: its processes, and what they keep."""

from scripts.dashboards.panel import OF_JOB, Dashboard, Panel, Row, gauge_of, more, quantile, rate, share

_CPU = f"sum by (instance) (rate(process_cpu_seconds_total{{{OF_JOB}}}[$__rate_interval]))"
_QUEUE = share(f"streamweir_listen_queue{{{OF_JOB}}}", f"streamweir_listen_queue_limit{{{OF_JOB}}}")

INTERNALS = Dashboard(
    "internals",
    "Internals",
    "The gateway itself: event loop, accounting, memory, descriptors, workers, configuration, alerts.",
    (
        Row(
            "Event loop and overload",
            (
                Panel(
                    "Lateness of the event loop, p99",
                    {"{{instance}}": quantile(0.99, "loop_lag_seconds", OF_JOB, "instance")},
                    "s",
                    "Every stream is delayed by so much.",
                    limit=0.1,
                ),
                Panel(
                    "Turn of the event loop, p99",
                    {"{{instance}}": quantile(0.99, "loop_turn_seconds", OF_JOB, "instance")},
                    "s",
                ),
                Panel(
                    "CPU",
                    {"{{instance}}": _CPU},
                    "short",
                    "In cores; a process uses one at most.",
                ),
                Panel(
                    "Requests being opened",
                    {
                        "{{instance}}": gauge_of("opening_requests", "instance"),
                        "limit of {{instance}}": gauge_of("opening_limit", "instance") + " < +Inf",
                    },
                    about="No line for the limit: there is none at the moment.",
                ),
                Panel(
                    "Connections that wait to be accepted",
                    {"{{instance}} {{listener}}": _QUEUE},
                    "percentunit",
                    "Of the maximum of the kernel.",
                ),
                Panel(
                    "Refused because of overload",
                    {"{{reason}}": rate("overload_refusals_total", OF_JOB, "reason")},
                    "reqps",
                    kind="stack",
                ),
            ),
        ),
        Row(
            "Accounting",
            (
                Panel(
                    "Age of the oldest entry that the database lacks",
                    {"{{instance}}": gauge_of("journal_oldest_seconds", "instance", how="max")},
                    "s",
                    limit=30.0,
                ),
                Panel(
                    "Journal that the database lacks", {"{{instance}}": gauge_of("journal_bytes", "instance")}, "bytes"
                ),
                Panel("Entries that wait", {"{{instance}}": gauge_of("journal_entries_waiting", "instance")}),
                Panel(
                    "Entries refused",
                    {"{{instance}}": more("journal_entries_refused_total", OF_JOB, "instance")},
                    about="The journal was full or could not be written.",
                    kind="bars",
                    limit=1.0,
                ),
                Panel(
                    "Contents not stored",
                    {"{{instance}}": more("content_dropped_total", OF_JOB, "instance")},
                    kind="bars",
                    limit=1.0,
                ),
                Panel(
                    "Processes that count limits alone",
                    {"{{instance}}": gauge_of("shared_degraded", "instance")},
                    about="Because Valkey is unavailable.",
                    limit=1.0,
                ),
            ),
        ),
        Row(
            "Memory and files",
            (
                Panel(
                    "Memory",
                    {"{{instance}}": f"sum by (instance) (process_resident_memory_bytes{{{OF_JOB}}})"},
                    "bytes",
                ),
                Panel(
                    "Bodies of requests in memory",
                    {"{{instance}}": gauge_of("request_body_bytes", "instance")},
                    "bytes",
                ),
                Panel(
                    "File descriptors",
                    {"{{instance}}": f"process_open_fds{{{OF_JOB}}} / process_max_fds{{{OF_JOB}}}"},
                    "percentunit",
                    "Of those that may be open.",
                    limit=0.8,
                    most=1.0,
                ),
            ),
        ),
        Row(
            "Processes",
            (
                Panel(
                    "Workers", {"{{instance}}": gauge_of("workers", "instance")}, about="That serve; only with several."
                ),
                Panel(
                    "Workers that died",
                    {"{{instance}}": more("worker_restarts_total", OF_JOB, "instance")},
                    kind="bars",
                    limit=1.0,
                ),
                Panel("Uptime", {"{{instance}}": f"time() - process_start_time_seconds{{{OF_JOB}}}"}, "s"),
                Panel(
                    "Version",
                    {"{{version}}, Python {{python}}": gauge_of("build_info", "version", "python")},
                    about="Nodes.",
                    kind="bars",
                ),
                Panel(
                    "Configuration in use",
                    {"{{instance}}": gauge_of("config_last_reload_successful", "instance", how="min")},
                    about="Red: the last reload failed.",
                    kind="states",
                    limit=1.0,
                    is_low_bad=True,
                ),
                Panel(
                    "Since the last reload",
                    {"{{instance}}": f"time() - streamweir_config_last_reload_success_timestamp_seconds{{{OF_JOB}}}"},
                    "s",
                ),
            ),
        ),
        Row(
            "What should not happen",
            (
                Panel("Bugs by kind", {"{{fault}}": more("faults_total", OF_JOB, "fault")}, kind="bars", limit=1.0),
                Panel(
                    "Background tasks that ended",
                    {"{{task}}": more("background_task_ends_total", OF_JOB, "task")},
                    kind="bars",
                    limit=1.0,
                ),
                Panel(
                    "Log lines dropped",
                    {"{{instance}}": more("log_lines_dropped_total", OF_JOB, "instance")},
                    kind="bars",
                    limit=1.0,
                ),
            ),
        ),
        Row(
            "Resumable streams and logins",
            (
                Panel(
                    "Resumable streams",
                    {"{{state}}": gauge_of("resumable_streams", "state")},
                    about="away: nobody reads them at the moment.",
                    kind="stack",
                ),
                Panel("Memory of their events", {"{{instance}}": gauge_of("resumable_bytes", "instance")}, "bytes"),
                Panel("Readers that came back", {"{{instance}}": more("stream_resumes_total", OF_JOB, "instance")}),
                Panel(
                    "Streams given up",
                    {"{{reason}}": more("streams_given_up_total", OF_JOB, "reason")},
                    about="Nobody can come back to them, although they ran on.",
                    kind="bars",
                    limit=1.0,
                ),
                Panel(
                    "Logins",
                    {"{{outcome}}": more("logins_total", OF_JOB, "outcome")},
                    about="Sessions of the console; wrong secrets and passwords; attempts beyond the limits.",
                    kind="bars",
                ),
            ),
        ),
        Row(
            "Export to an OpenTelemetry collector",
            (
                Panel("Exported", {"{{signal}}": more("telemetry_exported_total", OF_JOB, "signal")}, kind="bars"),
                Panel(
                    "Dropped",
                    {"{{signal}} {{reason}}": more("telemetry_dropped_total", OF_JOB, "signal", "reason")},
                    kind="bars",
                    limit=1.0,
                ),
            ),
        ),
        Row(
            "Alerts of the gateway, and secrets",
            (
                Panel("Alerts found", {"{{kind}}": more("alerts_total", OF_JOB, "kind")}, kind="bars"),
                Panel(
                    "Deliveries",
                    {"{{webhook}} {{outcome}}": more("alert_deliveries_total", OF_JOB, "webhook", "outcome")},
                    kind="bars",
                ),
                Panel("Alerts that wait", {"{{webhook}}": gauge_of("alerts_waiting", "webhook")}),
                Panel(
                    "Age of the oldest alert that waits",
                    {"{{webhook}}": gauge_of("alert_oldest_seconds", "webhook", how="max")},
                    "s",
                    limit=600.0,
                ),
                Panel(
                    "Secrets that were read again",
                    {"{{outcome}}": more("secret_refreshes_total", OF_JOB, "outcome")},
                    kind="bars",
                ),
                Panel(
                    "Attempts of credentials refused",
                    {
                        "{{provider}} / {{credential}}": more(
                            "credential_ejections_total", OF_JOB, "provider", "credential"
                        )
                    },
                    kind="bars",
                ),
            ),
        ),
    ),
)
