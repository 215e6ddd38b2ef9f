"""What the record of an attempt keeps of a provider's error, and what it leaves out because it may be the prompt."""

import pytest

from streamweir.core.call_trace import CallTrace
from streamweir.core.errors import (
    MAX_RECORDED_LENGTH,
    CallerError,
    ErrorReport,
    NativeError,
    StreamweirError,
    UpstreamError,
    scrub,
    without_secrets,
)
from streamweir.core.message import Message
from streamweir.core.request import Prompt, read_request
from streamweir.server.request.attempt.attempt_report import note_error
from streamweir.server.telemetry.record import AttemptRecord
from support.gateway import configured

CONFIG = configured(
    """
[[providers]]
name = "up"
kind = "openai"
api_key = "plain.provider.key"
headers = { x-team = "plain.team.header" }
[[models]]
id = "own"
targets = [{ provider = "up", model = "m", headers = { x-more = "plain.target.header" } }]
"""
)
TOOL = {"type": "function", "function": {"name": "f", "description": "the badger who lived in the bank told nobody"}}
PROMPT = "the badger who lived in the bank told nobody about its gold"


def noted(
    text: str,
    *,
    has_content: bool = False,
    status: int = 500,
    error: StreamweirError | None = None,
    prompt: Prompt | None = None,
) -> str | None:
    attempt = AttemptRecord(target="up/m", status=status)
    error = error or UpstreamError("upstream_server_error", "m")
    error.report = ErrorReport(code="c", type="t", param="p", text=text)
    note_error(attempt, error, CONFIG, prompt, has_content=has_content)
    assert (attempt.error, attempt.provider_code, attempt.provider_type) == (error.code, "c", "t")
    assert attempt.provider_param == "p"
    return attempt.provider_message


def test_a_message_is_scrubbed_masked_and_bounded() -> None:
    quoted = "No: plain.provider.key, plain.team.header, plain.target.header at https://x.example.com\n\x1b[31m"
    shown = noted(quoted + "word " * 200, has_content=True)
    assert shown is not None
    assert shown.startswith("No: ***, ***, *** at ***")
    assert (len(shown), shown.isprintable()) == (MAX_RECORDED_LENGTH, True)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_message_about_the_request_is_kept_only_with_its_content(status: int) -> None:
    assert noted(PROMPT, status=status) is None
    assert noted(PROMPT, status=status, has_content=True) == PROMPT


@pytest.mark.parametrize("code", ["invalid_value", "content_filter", "context_length_exceeded"])
def test_a_message_about_the_request_inside_of_a_stream_is_kept_only_with_its_content(code: str) -> None:
    assert noted(PROMPT, status=200, error=CallerError(code, "m")) is None
    assert noted(PROMPT, status=200, error=CallerError(code, "m"), has_content=True) == PROMPT


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            "You've reached your quota, and can't go on, so don't.",
            "You've reached your quota, and can't go on, so don't.",
        ),
        ("The model 'gpt-4o' is overloaded.", "The model 'gpt-4o' is overloaded."),
        (f"cannot render '{PROMPT}' now", "cannot render '...' now"),
        (f'cannot render "{PROMPT}" now', 'cannot render "..." now'),
        (f"cannot render `{PROMPT} it's` now", "cannot render `...` now"),
        (f"cannot render '{PROMPT} " + "on " * 100, "cannot render '...'"),
    ],
)
def test_long_quotations_are_left_out_without_content(text: str, kept: str) -> None:
    assert noted(text) == kept
    assert noted(text, has_content=True) is not None


def prompt_of(*texts: str) -> Prompt:
    return Prompt(messages=tuple(Message(role="user", content=text) for text in texts))


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        ("cannot render the badger who lived in the bank told nobody", False),
        ("cannot render the\nbadger who  lived in the bank told now", False),
        ("cannot render short of words now", False),
        ("The badger model is overloaded, try again later.", True),
        ("Rate limit reached for requests per minute: limit 5, used 5.", True),
    ],
)
def test_a_message_with_words_of_the_prompt_is_left_out_without_content(text: str, is_kept: bool) -> None:
    prompt = prompt_of("Hello.", "x" * 1000 + PROMPT.replace(" who", "\nwho"), "short of words")
    assert (noted(text, prompt=prompt) is not None) is is_kept
    assert noted(text, prompt=prompt, has_content=True) == " ".join(text.split("\n"))


def test_all_of_a_prompt_is_searched_unless_it_is_very_long() -> None:
    busy = "The engine is overloaded."
    embedding = Prompt(messages=(), texts=(PROMPT,))
    tools = read_request({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [TOOL]}).prompt
    for prompt in (embedding, tools):
        assert noted(f"cannot read {PROMPT}", prompt=prompt) is None
        assert noted(busy, prompt=prompt) == busy
    assert noted(busy, prompt=prompt_of("x" * 300_000)) is None
    assert noted("Connection refused", prompt=prompt_of("x" * 300_000), status=0) == "Connection refused"


def test_the_call_that_failed_counts_not_the_first() -> None:
    attempt = AttemptRecord(target="up/m", status=200, provider_request_id="first", trace=CallTrace(address="a"))
    error = UpstreamError("upstream_server_error", "m")
    error.report, error.trace = ErrorReport(status=503, request_id="third"), CallTrace(address="b")
    note_error(attempt, error, CONFIG, None, has_content=False)
    assert (attempt.status, attempt.provider_request_id, attempt.trace) == (503, "third", CallTrace(address="b"))


def test_without_a_report_the_code_is_noted() -> None:
    attempt = AttemptRecord(target="up/m", status=200, trace=CallTrace(address="a"))
    note_error(attempt, UpstreamError("stream_idle_timeout", "m"), CONFIG, None, has_content=False)
    assert (attempt.error, attempt.provider_message, attempt.trace) == (
        "stream_idle_timeout",
        None,
        CallTrace(address="a"),
    )


def test_known_secrets_are_masked_in_every_text_that_a_provider_chooses() -> None:
    key = "plain.provider.key"
    attempt = AttemptRecord(target="up/m", status=500, provider_request_id=key)
    error = UpstreamError("upstream_server_error", "m")
    error.report = ErrorReport(code=f"c {key}", type=f"t {key}", param=f"p {key}")
    note_error(attempt, error, CONFIG, None, has_content=True)
    assert (attempt.provider_code, attempt.provider_type, attempt.provider_param) == ("c ***", "t ***", "p ***")
    assert attempt.provider_request_id == "***"


@pytest.mark.parametrize("quoted", ["plain.provider.k", "plain.pr********.key", "*****ovider.key"])
def test_beginnings_and_ends_of_known_secrets_are_masked(quoted: str) -> None:
    shown = noted(f"Wrong key: {quoted}, sorry.", has_content=True)
    assert shown is not None
    assert "plain.pr" not in shown
    assert "ovider.key" not in shown
    assert (shown.startswith("Wrong key: *"), shown.endswith(", sorry.")) == (True, True)


def test_a_secret_inside_of_another_does_not_keep_the_rest_of_it_visible() -> None:
    secrets = ["short-secret", "a-short-secret-and-more"]
    for order in (secrets, secrets[::-1]):
        assert without_secrets("No: a-short-secret-and-more.", order) == "No: ***."


def test_what_a_caller_sees_has_no_secret_either() -> None:
    text = "x" * 390 + " plain.provider.key"  # it is cut inside of the key
    error = CallerError("invalid_value", scrub(text), param="plain.team.header")
    error.report = ErrorReport(text=text)
    error.native = NativeError("w", 400, "t", scrub(text), "plain.provider.key", "plain.team.header")
    note_error(AttemptRecord(target="up/m", status=400), error, CONFIG, None, has_content=False)
    assert (error.message, error.param) == ("x" * 390 + " ***", "***")
    assert error.native == NativeError("w", 400, "t", "x" * 390 + " ***", "***", "***")
    assert "plain" not in f"{error} {error.args}"
