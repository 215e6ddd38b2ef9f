"""What is printed for operators' eyes holds neither control characters nor keys, and keeps what they need."""

import pytest

from streamweir.server.telemetry.sanitize import MAX_LENGTH, clean, clean_id, clean_lines

SECRETS = [
    "sk-sw-0123456789abcdefghijklmnopqrstuv",
    "sk-1234",
    "sk_live_abcdefgh",
    "gsk_a1b2c3d4e5f6g7h8",
    "hf_AbCdEfGh1234567890",
    "AIzaSyA1234567890abcdefghijk",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
    "AKIAIOSFODNN7EXAMPLE",
    "0123456789abcdef0123456789abcdef",
    "ghp_0123456789abcdef",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("around", ["{}", "model {} is here", "/v1/{}/x", "'{}'", "a={}&b", "x\u200b{}", "{}\x1b[0m"])
def test_a_key_is_masked_everywhere(secret: str, around: str) -> None:
    text = clean(around.format(secret))
    assert secret not in text
    assert secret[:12] not in text
    assert "***" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("sent Bearer abc.def here", "sent *** here"),
        ("x-api-key: short", "x-api-key: ***"),
        ("password=hunter2 next", "password=*** next"),
        ("postgresql://user:hunter2@db.internal/books", "postgresql://***@db.internal/books"),
        ("https://host/path?key=abc&alt=sse", "https://host/path?key=***&alt=sse"),
        ("Basic dXNlcjpwYXNzMQ==", "***"),
        ("a basic misunderstanding", "a basic misunderstanding"),
    ],
)
def test_a_credential_is_masked_by_the_name_before_it(text: str, expected: str) -> None:
    assert clean(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "gpt-4o-2024-08-06",
        "openai/gpt-4o-mini",
        "anthropic/claude-sonnet-4-5-20250929",
        "meta-llama/Llama-3.3-70B-Instruct-Turbo",
        "xai/grok-4-fast-reasoning",
        "/v1/chat/completions",
        "/etc/streamweir/streamweir.toml: server.timeouts.idle_s: expected a number",
        "127.0.0.1:8080",
        "api.openai.com",
        "a task-force of disk-2 and risk_12345678",
        "messages[0].content[1].image_url",
        "",
        "Größe, 模型, модель",
    ],
)
def test_what_an_operator_needs_is_left_alone(text: str) -> None:
    assert clean(text) == text
    assert clean(text) == text, "also when it comes again"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb\r\nc\td", "abcd"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("end\x1b", "end"),
        ("nul\x00 del\x7f c1\x85", "nul del c1"),
        ("\u202egpj.exe\u2066x\u2069", "gpj.exex"),
        ("zero\u200bwidth\ufeff\u2028", "zerowidth"),
        ("lone \ud800", "lone "),
        ("tag\U000e0041", "tag"),
    ],
)
def test_nothing_that_steers_a_terminal_is_left(text: str, expected: str) -> None:
    assert clean(text) == expected
    assert clean_id(text) == expected


def test_a_key_cannot_hide_behind_an_invisible_character() -> None:
    assert "abcdefgh" not in clean("s\u200bk-abcdefgh")


@pytest.mark.parametrize("length", [MAX_LENGTH, MAX_LENGTH + 1, 100_000])
def test_the_length_is_bounded(length: int) -> None:
    assert len(clean("é" * length)) == MAX_LENGTH
    assert len(clean_id("é" * length)) == MAX_LENGTH


def test_a_shorter_bound_holds_for_a_text_that_was_seen_before() -> None:
    text = "a model with a name of thirty."
    assert clean(text) == text
    assert clean(text, 10) == "a model..."


def test_an_id_may_be_opaque_but_is_no_key() -> None:
    assert clean_id("req_0123456789abcdef0123456789abcdef") == "req_0123456789abcdef0123456789abcdef"
    assert clean_id("sk-abcdefgh") == "***"


def test_lines_stay_lines_and_are_bounded() -> None:
    text = clean_lines('Traceback:\n\tFile "x.py"\x1b[0m\n  key sk-abcdefgh\n' + "y" * 1000, 10_000)
    assert text.split("\n")[:3] == ["Traceback:", '\tFile "x.py"', "  key ***"]
    assert len(text.split("\n")[3]) == MAX_LENGTH
    assert len(clean_lines("x\n" * 10_000, 500)) == 500


def test_hostile_text_takes_linear_time() -> None:
    """Without the bounds inside the lookaheads these take seconds."""
    for part in ("sk-", "hf-", "basic aaaaaaaaaaaaaaaa ", "://", "eyJ", "api_key", "password= "):
        clean(part * 100_000, 100_000)
