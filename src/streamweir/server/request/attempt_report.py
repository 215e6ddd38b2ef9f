"""What the provider reported with an error, for the record of the attempt.

A provider's message can quote the request. So the record of a key without `log_content` has no message of an error that
is about the request itself, and of other messages no long quotation. Code, type and parameter are always recorded. All
of it is scrubbed, known secrets are masked, and every text has a limit (docs/decisions/0034).
"""

import re

from streamweir.config.model import Config
from streamweir.config.secret import secrets_for
from streamweir.core.errors import CallerError, StreamweirError
from streamweir.server.telemetry.record import AttemptRecord

MAX_MESSAGE_LENGTH = 300
_ABOUT_THE_REQUEST = frozenset({400, 413, 422})
_QUOTATION = re.compile(r"""(?<!\w)(["'`])(?:(?!\1(?!\w)).){41,}(?:\1|$)""")
"""Longer than the name of a model or a parameter. An apostrophe inside of a word is no quotation mark."""


def note_error(attempt: AttemptRecord, error: StreamweirError, config: Config, *, has_content: bool) -> None:
    """`has_content`: the key stores prompts and answers."""
    attempt.error = error.code
    attempt.trace = error.trace or attempt.trace
    report = error.report
    if report is None:
        return
    attempt.status = report.status or attempt.status
    attempt.provider_request_id = report.request_id or attempt.provider_request_id
    attempt.provider_code, attempt.provider_type, attempt.provider_param = report.code, report.type, report.param
    if not report.text:
        return
    is_about_the_request = isinstance(error, CallerError) or attempt.status in _ABOUT_THE_REQUEST
    if is_about_the_request and not has_content:
        return
    secrets = secrets_for(config, attempt.target.partition("/")[0])
    message = report.message(secrets, MAX_MESSAGE_LENGTH)
    attempt.provider_message = (message if has_content else _QUOTATION.sub(r"\1...\1", message)) or None
