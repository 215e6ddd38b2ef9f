"""What is hidden, what is left, and that no cut, escape or window of the search lets a secret through."""

import json
import random
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.policy.redact import _SHAPES, _WINDOW, HIDDEN, MARGIN, Redactor, _search

SECRETS = (
    "sk-sw-" + "a1B2c3D4" * 6,
    "sw-admin-" + "a1B2c3D4" * 6,
    "sw-session-" + "a1B2c3D4" * 6,
    "sw-csrf-" + "a1B2c3D4" * 6,
    "sk-proj-abc_DEF-1234567890",
    "sk_live_51HxAbCdEfGh1234",
    "gsk_abcdefghijklmnop1234",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG0123456789_abc",
    "glpat-abcdefgh12345678",
    "xoxb-123456789012-abcdefghij",
    "hf_abcdefghijklmnopqrst",
    "nvapi-abcdefgh-ijklmnop1234",
    "AIzaSyA-abcdefghijklmnopqrstuvwxyz01234",
    "AKIAIOSFODNN7EXAMPLE",
    "ya29.a0AfH6SMBabcdefghijklmnop",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N",
    "pplx-0123456789abcdef",
    "xai-abcdefghijklmnop1234",
)
NAMED = {
    "Authorization: Bearer {}": "abc.DEF-123456=",
    "authorization: basic {}": "dXNlcjpwYXNzd29yZA==",
    "postgresql://user:{}@db.example/books": "hunter2",
    '{{"password": "{}"}}': "correct-horse",
    "API_KEY={}": "0123456789abcdef",
    "api-key: '{}'": "zyxwvu",
    "client_secret={}&x=1": "abcdef",
}
HARMLESS = (
    "scikit-learn is also written sk-learn, and sk-folding-cube is a spinner",
    "a task-oriented agent, desk_1234567890abcdef, risk-1234567890123",
    "550e8400-e29b-41d4-a716-446655440000",
    "The password is in the book. Bearer of bad news: nobody.",
    "https://example.com/a?b=c#d and user@example.com",
    "d41d8cd98f00b204e9800998ecf8427e " * 3,
    "eyJ is how it begins",
    "emojis \U0001f600, NUL \x00, a lone \ud83d surrogate, \x1b[31mred\x1b[0m",
    "",
)
PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA0/1+\n" * 40 + "-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("around", ["{}", "it is {}, keep it", "({})", '"{}"', "\n{}\n", "key={};"])
def test_a_secret_is_hidden_by_its_shape(secret: str, around: str) -> None:
    assert Redactor().text(around.format(secret)) == around.format(HIDDEN)


@pytest.mark.parametrize(("around", "secret"), NAMED.items())
def test_a_secret_is_hidden_by_what_it_is_called(secret: str, around: str) -> None:
    assert Redactor().text(around.format(secret)) == around.format(HIDDEN)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor().text(text) == text


def test_a_private_key_is_hidden_whole_and_also_without_its_end() -> None:
    assert Redactor().text(f"here: {PEM} there") == f"here: {HIDDEN} there"
    assert "MIIE" not in Redactor().text(PEM[:500])
    assert "MIIE" not in Redactor().document(json.dumps({"content": PEM}))


def test_the_operator_adds_patterns_and_may_hide_a_part() -> None:
    redactor = Redactor([r"\b\d{4}-\d{4}\b", r"ticket (?P<secret>[A-Z]+)"])
    assert redactor.text("card 1234-5678, ticket ABC") == f"card {HIDDEN}, ticket {HIDDEN}"
    assert Redactor(["^Name: .*$"]).document('["a\\nName: b","Name: c","d"]') == f'["a\\n{HIDDEN}","{HIDDEN}","d"]'


@pytest.mark.parametrize("pattern", ["(", "x*", "", "(?P<secret>a?)"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(pattern))):
        Redactor([pattern])


def test_spans_that_overlap_are_hidden_as_one() -> None:
    assert Redactor(["bcd", "cdef"]).text("abcdefg") == f"a{HIDDEN}g"


@pytest.mark.parametrize("secret", SECRETS)
def test_an_escape_does_not_hide_a_secret_in_json(secret: str) -> None:
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in secret)
    for document in (
        json.dumps({"messages": [{"role": "user", "content": f"line\n{secret}"}]}),
        '{"messages":[{"role":"user","content":"' + escaped + '"}]}',
        '{"' + escaped + '": 1}',
        json.dumps({"arguments": json.dumps({"text": f"line\n{secret}"})}),
    ):
        redacted = Redactor().document(document)
        assert secret not in repr(json.loads(redacted))
        assert HIDDEN in redacted


def test_a_document_without_secrets_stays_as_it_was_written() -> None:
    document = '{ "messages" : [ {"content": "hello" } ] }'
    assert Redactor().document(document) == document


def test_what_is_no_document_is_a_text() -> None:
    assert Redactor().document(f'{{"cut": "{SECRETS[0]}') == f'{{"cut": "{HIDDEN}'
    assert Redactor().document("\ud800" + SECRETS[0]) == "\ud800" + HIDDEN


def delta(text: str, index: int = 0) -> str:
    return "data: " + json.dumps({"id": "x", "choices": [{"index": index, "delta": {"content": text}}]}) + "\n\n"


@pytest.mark.parametrize("secret", SECRETS[:4])
def test_a_secret_that_came_in_two_frames_is_hidden_in_both(secret: str) -> None:
    for cut in range(1, len(secret)):
        frames = [
            (1, delta("it is ")),
            (2, delta(secret[:cut])),
            (3, delta(secret[cut:] + " now")),
            (4, "data: [DONE]"),
        ]
        redacted = Redactor().frames(frames)
        assert [at_ms for at_ms, _ in redacted] == [1, 2, 3, 4]
        texts = [json.loads(text.removeprefix("data: "))["choices"][0]["delta"]["content"] for _, text in redacted[:3]]
        assert texts == ["it is ", HIDDEN, " now"]
        assert redacted[0] == frames[0]
        assert redacted[3] == frames[3]


def test_the_answers_of_two_choices_are_two_texts() -> None:
    secret = SECRETS[0]
    frames = [(at, delta(letter, index)) for at, letter in enumerate(secret) for index in (1, 0)]
    joined = "".join(text for _, text in Redactor().frames(frames))
    assert joined.count('"content": ""') == 2 * (len(secret) - 1)


def test_a_tool_calls_arguments_in_pieces_are_one_text() -> None:
    secret = SECRETS[0]
    frames = [
        (
            0,
            json.dumps(
                {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}}]}
            ),
        )
        for piece in ('{"key":"', secret[:9], secret[9:], '"}')
    ]
    joined = "".join(text for _, text in Redactor().frames(frames))
    assert secret[:9] not in joined
    assert secret[9:] not in joined


def pieces_of(text: str, ends: list[int]) -> list[str]:
    bounds = sorted({0, len(text), *(end % (len(text) + 1) for end in ends)})
    return [text[start:end] for start, end in pairwise(bounds)]


def streams(answer: str, cuts: list[int]) -> list[str]:
    """An answer as every kind of stream brings it, in pieces that end at these places."""
    pieces = pieces_of(answer, cuts)
    blocks = [{"type": "content_block_delta", "index": 0, "delta": {"text": piece}} for piece in pieces]
    parts = [{"candidates": [{"content": {"parts": [{"text": piece}]}, "index": 0}]} for piece in pieces]
    return [
        "".join(map(delta, pieces)),
        "".join(f"event: content_block_delta\r\ndata: {json.dumps(block)}\r\n\r\n" for block in blocks),
        json.dumps(parts),
        json.dumps(parts, indent=2),
        json.dumps(parts, indent=2)[:-20],
        json.dumps({"choices": [{"message": {"content": answer}}]}),
        answer,
    ]


@given(
    st.sampled_from(SECRETS),
    st.sampled_from(["", "it is ", "line\n", "\u2028", '"quoted" \\ ']),
    st.lists(st.integers(0, 200), max_size=30),
    st.lists(st.integers(0, 5000), max_size=30),
)
def test_no_framing_and_no_cut_lets_a_secret_through(
    secret: str, before: str, cuts: list[int], ends: list[int]
) -> None:
    for stream in streams(f"{before}{secret}, and that was it, and nothing more is said here", cuts):
        frames = list(enumerate(pieces_of(stream, ends)))
        redacted = Redactor().frames(frames)
        whole = "".join(text for _, text in redacted)
        assert [at for at, _ in redacted] == [at for at, _ in frames]
        assert HIDDEN in whole
        said = "".join(re.findall(r'"(?:content|text)": "((?:[^"\\]|\\.)*)', whole))
        assert secret not in whole
        assert secret[3:] not in said
        assert secret[:-3] not in said


@given(st.lists(st.text(max_size=30), max_size=20), st.lists(st.integers(0, 5000), max_size=30))
def test_a_stream_without_secrets_is_kept_to_the_letter(pieces: list[str], ends: list[int]) -> None:
    stream = "".join(delta(piece.replace("://", "").replace("=", "").replace(":", "")) for piece in pieces)
    frames = list(enumerate(pieces_of(stream, ends)))
    assert Redactor().frames(frames) == frames


@given(st.lists(st.tuples(st.sampled_from(SECRETS), st.integers(0, 9000)), min_size=1, max_size=8), st.randoms())
def test_windows_find_what_one_search_finds(places: list[tuple[str, int]], chance: random.Random) -> None:
    text = "".join("x " * (gap // 2) + secret + chance.choice((" ", ", ", "\n")) for secret, gap in places)
    assert list(_search(_SHAPES, text)) == [found.span() for found in _SHAPES.finditer(text)]


@pytest.mark.parametrize("offset", range(-60, 4))
def test_a_secret_at_the_edge_of_a_window_is_found(offset: int) -> None:
    for edge in (_WINDOW, _WINDOW - MARGIN):
        text = " " * (edge + offset) + SECRETS[0] + " " * _WINDOW
        assert Redactor().text(text).strip() == HIDDEN


def test_a_secret_longer_than_a_window_is_hidden_whole() -> None:
    long = "sk-" + "a1" * _WINDOW
    assert Redactor().text(f"x {long} y {long}") == f"x {HIDDEN} y {HIDDEN}"


@given(st.text(st.characters(codec=None), max_size=200))
def test_any_text_is_taken_and_a_second_time_changes_nothing(text: str) -> None:
    redactor = Redactor()
    once = redactor.text(text)
    assert redactor.text(once) == once
    redactor.document(text)
    assert len(redactor.frames([(0, text), (1, "{" + text + "}")])) == 2
