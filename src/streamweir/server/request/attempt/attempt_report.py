"""What the provider reported with an error, for the record of the attempt.

A provider's message can quote the request. So the record of a key without `log_content` has no message of an error that
is about the request itself, and none that has words of the prompt in it; of other messages it has no long quotation.
Code, type and parameter are always recorded. All of it is scrubbed, known secrets are masked, and every text has a
limit (docs/decisions/0034). A caller sees some of these messages too: there the secrets are masked as well.
"""

import re

from streamweir.config.model import Config
from streamweir.config.secret import secrets_for
from streamweir.core.errors import CallerError, StreamweirError, hide_secrets, without_secrets
from streamweir.core.request import Prompt
from streamweir.server.accounting.token_count import texts_of
from streamweir.server.telemetry.record import AttemptRecord
from streamweir.wire import jsonio

_ABOUT_THE_REQUEST = frozenset({400, 413, 422})
_QUOTATION = re.compile(r"""(?<!\w)(["'`])(?:(?!\1(?!\w)).){41,}(?:\1|$)""")
"""Longer than the name of a model or a parameter. An apostrophe inside of a word is no quotation mark."""
_SEARCHED_LENGTH = 20
"""Characters of the prompt, without spaces, that a message must not contain; searched in steps of half of it."""
_MAX_PROMPT_LENGTH = 256 * 1024
"""In characters. A longer prompt is not searched: that would block the event loop for too long."""


def note_error(
    attempt: AttemptRecord, error: StreamweirError, config: Config, prompt: Prompt | None, *, has_content: bool
) -> None:
    """`has_content`: the key stores prompts and answers."""
    attempt.error = error.code
    attempt.trace = error.trace or attempt.trace
    report = error.report
    if report is None:
        return
    secrets = secrets_for(config, attempt.target.partition("/")[0])
    hide_secrets(error, secrets)
    attempt.status = report.status or attempt.status
    attempt.provider_request_id = without_secrets(report.request_id or attempt.provider_request_id, secrets)
    attempt.provider_code = without_secrets(report.code, secrets)
    attempt.provider_type = without_secrets(report.type, secrets)
    attempt.provider_param = without_secrets(report.param, secrets)
    attempt.advice = without_secrets(report.advice, secrets)
    if not report.text:
        return
    is_about_the_request = isinstance(error, CallerError) or attempt.status in _ABOUT_THE_REQUEST
    if is_about_the_request and not has_content:
        return
    message = report.message(secrets)
    if not has_content and attempt.status:  # without a status it is the operating system's
        message = without_quotations(message)
        if prompt is not None and quotes_prompt(message, prompt):
            return
    attempt.provider_message = message or None


def without_quotations(message: str) -> str:
    """Without what it quotes at length, which may be the caller's text."""
    return _QUOTATION.sub(r"\1...\1", message)


def quotes_prompt(message: str, prompt: Prompt) -> bool:
    """Whether a message contains about thirty characters of the prompt, or a whole text of it that is not very short.
    True also if the prompt is too long to be searched."""
    texts = [*prompt.texts, *(text for each in prompt.messages for text in texts_of(each))]
    if prompt.tools:
        texts.append(jsonio.encode(prompt.tools).decode())
    if sum(map(len, texts)) > _MAX_PROMPT_LENGTH:
        return True
    # Without spaces: a message has spaces instead of the prompt's line ends.
    searched, texts = "".join(message.split()), ["".join(text.split()) for text in texts]
    length, step = _SEARCHED_LENGTH, _SEARCHED_LENGTH // 2
    pieces = [searched[at : at + length] for at in range(0, len(searched) - length + 1, step)]
    return any(
        any(piece in text for piece in pieces) if len(text) > length else len(text) > step and text in searched
        for text in texts
    )
