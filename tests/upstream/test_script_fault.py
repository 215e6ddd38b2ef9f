"""The scripts that fail, and requests that cannot be played: as a provider would do it, and as documented."""

import json
import re
from pathlib import Path

import pytest

from streamweir.core.errors import CallerError, UpstreamError
from streamweir.providers.failure import read_error
from streamweir.upstream.script import END, MODELS, SCRIPTS, Head, play
from streamweir.upstream.script.parameter import COMMON, PARAMETER_VALUES, Options
from support.script_player import DONE, blocks_of, error_of, said, steps, whole

DOCUMENT = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()


def test_errors_are_those_of_a_provider() -> None:
    head, error = error_of("error?status=429&retry_after=7")
    assert head == Head(429, {"content-type": "application/json", "retry-after": "7"})
    assert (error["type"], error["param"], error["code"]) == ("requests", None, "rate_limit_exceeded")
    head, error = error_of("error")
    assert (head.status, error["type"], error["code"]) == (500, "server_error", None)
    assert error_of("error?status=400&code=context_length_exceeded")[1]["code"] == "context_length_exceeded"
    assert error_of("error?status=418")[1]["code"] == "418"
    assert error_of("error?status=599")[1]["type"] == "server_error"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "invalid_value"),
        (401, "upstream_auth_failed"),
        (402, "upstream_quota_exhausted"),
        (403, "upstream_auth_failed"),
        (404, "upstream_model_not_found"),
        (408, "upstream_timeout"),
        (413, "request_too_large"),
        (422, "invalid_value"),
        (429, "upstream_rate_limited"),
        (500, "upstream_server_error"),
        (502, "upstream_server_error"),
        (503, "upstream_overloaded"),
        (504, "upstream_timeout"),
        (529, "upstream_overloaded"),
    ],
)
def test_errors_mean_the_same_before_and_inside_a_stream(status: int, code: str) -> None:
    head, error = error_of(f"error?status={status}")
    body = json.dumps({"error": error}).encode()
    assert read_error(head.status, head.headers, body).code == code
    assert read_error(200, {}, body).code == code
    blocks, end = blocks_of(f"error?status={status}&at=2")
    assert json.loads(blocks[2][6:]) == {"error": error}
    assert (len(blocks), blocks[3], end) == (4, DONE, END)


@pytest.mark.parametrize("at", [0, 1, 5, 1000])
def test_cuts(at: int) -> None:
    full, _ = blocks_of("cut?how=no-done")
    kept = full[:at]
    for how, code in (("fin", "upstream_stream_truncated"), ("rst", "upstream_stream_reset")):
        blocks, failure = blocks_of(f"cut?at={at}&how={how}")
        assert blocks == kept
        assert isinstance(failure, UpstreamError)
        assert failure.code == code
    assert blocks_of(f"cut?at={at}&how=end") == (kept, END)
    following = full[at] if at < len(full) else DONE
    assert blocks_of(f"cut?at={at}&how=half-frame") == ([*kept, following[: len(following) // 2]], END)
    unfinished = [block for block in kept if b'"finish_reason":"' not in block and b'"choices":[]' not in block]
    assert blocks_of(f"cut?at={at}&how=no-finish") == ([*unfinished, DONE], END)
    assert blocks_of(f"cut?at={at}&how=no-done") == (full, END)
    blocks, silence = blocks_of(f"stall?at={at}")
    assert (len(blocks), silence) == (len(kept), None)


@pytest.mark.parametrize("model", [*(f"cut?how={how}" for how in PARAMETER_VALUES["how"] or ()), "stall", "garbage"])
def test_a_whole_answer_is_cut_in_its_middle(model: str) -> None:
    blocks, _ = blocks_of(model, stream=False)
    if model == "cut?how=no-done":
        assert whole(model)["choices"][0]["finish_reason"] == "stop"
    else:
        with pytest.raises(ValueError, match=r"Unterminated|Expecting|Invalid"):
            json.loads(b"".join(blocks))


def test_an_error_in_place_of_a_whole_answer_that_began_well() -> None:
    [body], end = blocks_of("error?at=3&status=503", stream=False)
    assert json.loads(body)["error"]["code"] == "overloaded"
    assert end == END


def test_other_ways_to_fail() -> None:
    assert blocks_of("empty") == ([], END)
    assert steps("html")[0].action == Head(200, {"content-type": "text/html; charset=utf-8"})
    head = steps("redirect")[0].action
    assert isinstance(head, Head)
    assert (head.status, "location" in head.headers) == (307, True)
    blocks, end = blocks_of("garbage?at=1")
    assert (len(blocks), blocks[2], end) == (3, DONE, END)
    with pytest.raises(ValueError, match=r"Unterminated|Invalid"):
        json.loads(blocks[1].removeprefix(b"data: "))


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("size", [1, 65_536, 200_000])
def test_a_huge_frame_has_its_size_and_comes_in_blocks(size: int, stream: bool) -> None:
    blocks, end = blocks_of(f"huge-frame?bytes={size}&text=a b c d&at=3", stream=stream)
    assert max(map(len, blocks)) < 70_000
    assert end == END
    body = b"".join(blocks)
    if stream:
        documents = [json.loads(frame[6:]) for frame in body.split(b"\n\n") if frame.startswith(b"data: {")]
        texts = [document["choices"][0]["delta"].get("content", "") for document in documents[:-1]]
        assert texts == ["", "a", " b", "x" * size + " c", " d", ""]
    else:
        assert json.loads(body)["choices"][0]["message"]["content"] == "x" * size + "a b c d"


def test_endless_continues_beyond_any_limit() -> None:
    played = steps("endless", most=5000, max_tokens=5)
    assert len(played) == 5000
    assert not any(isinstance(step.action, bytes) and b'"finish_reason":"' in step.action for step in played)
    assert {step.after_s for step in played} == {0.0, 0.01}
    last = steps("endless?text=ha", most=50)[-1].action
    assert isinstance(last, bytes)
    assert json.loads(last[6:])["choices"][0]["delta"]["content"] in ("ha", " ")


def test_an_endless_whole_answer_is_one_text() -> None:
    blocks = [step.action for step in steps("endless?text=a%22b", most=500, stream=False)]
    begun = b"".join([block for block in blocks if isinstance(block, bytes)])
    content = json.loads(begun + b'"}}]}')["choices"][0]["message"]["content"]
    assert content.startswith('a"b a"b')
    assert len(content) == 498


@pytest.mark.parametrize("model", ["nobody", "", "hello/you", None, 7, "sim/hello", "HELLO"])
def test_an_unknown_script_is_refused_with_all_there_are(model: object) -> None:
    head, error = error_of(model)
    assert (head.status, error["type"], error["param"]) == (400, "invalid_request_error", "model")
    assert all(name in error["message"] for name in SCRIPTS)
    assert read_error(head.status, head.headers, json.dumps({"error": error}).encode()).message == error["message"]


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("hello?pace=1", "The simulator's script hello has no parameter 'pace'. It takes: text, chunk, pace_ms"),
        ("hello?words=1", "has no parameter 'words'"),
        ("error?words=1", "It takes: status, code, retry_after, at, text"),
        ("lorem?words=0", "words is a whole number from 1 to 10000"),
        ("lorem?words=-1", "words is a whole number"),
        ("lorem?words=", "words is a whole number"),
        ("lorem?words=1.5", "words is a whole number"),
        ("lorem?words=%D9%A1", "words is a whole number"),
        ("lorem?words=" + "9" * 5000, "words is a whole number"),
        ("error?status=200", "status is a whole number from 400 to 599"),
        ("cut?how=softly", "how is one of fin, rst, end, half-frame, no-done, no-finish"),
        ("hello?usage=lots", "usage is one of own, finish, every, twice, none, zero, absurd"),
        ("hello?seed=1&seed=2", "seed stands more than once"),
    ],
)
def test_a_bad_parameter_is_refused_with_what_is_good(model: str, reason: str) -> None:
    head, error = error_of(model)
    assert reason in error["message"]
    refused = read_error(head.status, head.headers, json.dumps({"error": error}).encode())
    assert isinstance(refused, CallerError)
    assert (refused.code, refused.param, refused.message) == ("invalid_value", "model", error["message"])


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"hello"', b"\xff", b'{"model":"hello"}', b'{"model":"hello","messages":7}'],
)
def test_a_body_that_is_no_request_is_refused(body: bytes) -> None:
    head, error, end = [step.action for step in play(body, created=1, entropy=b"")]
    assert isinstance(head, Head)
    assert isinstance(error, bytes)
    assert (head.status, json.loads(error)["error"]["type"], end) == (400, "invalid_request_error", END)


def test_the_name_of_a_script_may_be_longer_than_a_caller_can_send() -> None:
    assert len(said(f"hello?text={'a' * 1000}")) == 1000


def test_every_parameter_has_a_default_and_a_taker() -> None:
    parameters = {name for script in SCRIPTS.values() for name in script.parameters}
    assert set(PARAMETER_VALUES) == set(Options.__struct_fields__) == parameters | set(COMMON)
    assert not parameters & set(COMMON)


def rows_of(title: str) -> list[list[str]]:
    """The rows of the document's first table under a title, cell by cell."""
    section = DOCUMENT.partition(f"## {title}\n")[2].partition("\n**")[0].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    assert rows
    return [[cell.strip() for cell in row] for row in rows]


def test_the_document_names_every_script_and_its_parameters() -> None:
    rows = {row[0].strip("`"): row for row in rows_of("Scripts")}
    assert list(rows) == list(SCRIPTS)
    assert tuple(rows)[: len(MODELS)] == MODELS
    for name, row in rows.items():
        assert re.findall(r"`(\w+)`", row[1]) == list(SCRIPTS[name].parameters)


def test_the_document_names_every_parameter_with_what_it_takes() -> None:
    rows = {row[0].strip("`"): row[1] for row in rows_of("Parameters")}
    assert list(rows) == list(PARAMETER_VALUES)
    assert tuple(rows)[: len(COMMON)] == COMMON
    for name, recorder in rows.items():
        values = PARAMETER_VALUES[name]
        if isinstance(values, range):
            assert recorder == f"{values[0]} to {values[-1]}"
        else:
            assert recorder == ("text" if values is None else ", ".join(f"`{word}`" for word in values))


@pytest.mark.parametrize("model", sorted(set(re.findall(r"[`\"]sim/([^`\"]+)[`\"]", DOCUMENT))))
def test_the_documents_examples_can_be_played(model: str) -> None:
    head = steps(model, most=1)[0].action
    assert isinstance(head, Head)
    is_error = model.startswith("error") and "at=" not in model
    assert (head.status >= 400) == is_error
