"""Foreign text in messages, lists and logs: bounded.

Nothing is masked or removed here. What a text may show is decided where it goes: `core.errors.scrub` (a provider's
message for a caller), `server.telemetry.sanitize` (the log and the metrics), `cli.view.table` (a terminal).
"""


def cut(text: str, max_length: int) -> str:
    """At most `max_length` characters; the dots say that there are more."""
    return text if len(text) <= max_length else text[: max_length - 3] + "..."
