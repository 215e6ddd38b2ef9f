"""What the engine writes keeps every rule; where it does not, the case and the reason are named."""

from pathlib import Path

import pytest

from streamweir.cli.commands.replay import replay
from streamweir.conformance import Recording, RequestInfo, check
from streamweir.frontends.chat.dialect import Dialect
from streamweir.frontends.chat.table import DIALECTS
from support.soak import one_of_each, part_of

ROOT = Path(__file__).parents[1] / "fixtures"
GOLDEN = sorted(path for name in DIALECTS for path in ROOT.glob(f"*/*/{name}.sse"))
BODIES = sorted([*ROOT.glob("*/*/response.sse"), *ROOT.glob("*/*/response.json")])
MODEL = "vendor/model"

SENT_SO = {
    "anthropic/content_in_message_start": {"usage.some"},
    "anthropic/emoji_cut_in_two": {"framing.whole-characters"},
    "bedrock-messages/whole_guardrail_intervened": {"usage.some"},
    "deepseek/tool_without_arguments": {"tool.arguments-json", "whole.tool-calls"},
    "doubleword/blank_lines_as_keep_alive": {"usage.details-are-parts"},
    "doubleword/reasoning_under_three_names": {"usage.details-are-parts"},
    "fireworks/inline_think_stays_text": {"reasoning.not-in-content"},
    "gemini/emoji_cut_in_two": {"framing.whole-characters"},
    "gemini/wrong_types_that_do_not_matter": {"usage.some"},
    "openai/lone_surrogate": {"framing.whole-characters"},
    "openai-responses/emoji_cut_in_two": {"framing.whole-characters"},
    "openai-compatible/arguments_absent": {"tool.arguments-json", "whole.tool-calls"},
    "openai-compatible/tool_without_name": {"tool.name"},
    "openrouter/tool_calls_though_native_length": {"tool.arguments-json", "whole.tool-calls"},
}
"""The upstream itself sent it so."""
WRITTEN_SO = {
    # bitseek has no word for a cut answer: length becomes stop, also where calls were sent as far as they came.
    "anthropic/out_of_tokens_mid_call": {"finish.says-calls"},
    "deepseek/tool_arguments_cut_by_length": {"finish.says-calls"},
    "gemini/function_call_cut_by_max_tokens": {"finish.says-calls"},
    "openai-responses/incomplete_mid_call": {"finish.says-calls"},
    # A custom tool's call is written as a function's in most dialects, and its input is no JSON.
    "openai/custom_tool_call": {"tool.arguments-json", "whole.tool-calls"},
    "openai-responses/custom_tool_call": {"tool.arguments-json", "whole.tool-calls"},
    # bitseek leaves an unfinished call out, and keeps the finish reason that announces it.
    "openrouter/tool_calls_though_native_length": {"finish.calls-were-sent"},
}
"""The engine makes it so, by the dialects' table."""


def named(path: Path) -> str:
    return f"{path.parent.parent.name}/{path.parent.name}"


def name_of(value: Path | str) -> str:
    return named(value) if isinstance(value, Path) else value


ODD = [path for path in BODIES if named(path) in SENT_SO.keys() | WRITTEN_SO.keys()]
PLAIN = [path for path in BODIES if path not in ODD]


def broken_by(body: bytes, dialect: Dialect, *, usage: bool, stream: bool) -> set[str]:
    recording = Recording(body=body, request=RequestInfo(stream=stream, include_usage=usage, model=MODEL))
    report = check(recording, dialect)
    assert report.has_checked
    return {finding.rule for finding in report.findings}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{named(path)}/{path.stem}")
def test_a_written_answer_breaks_no_rule(path: Path) -> None:
    assert broken_by(path.read_bytes(), DIALECTS[path.stem], usage=True, stream=True) == set()


@pytest.mark.parametrize("path", ODD, ids=named)
def test_only_what_is_named_breaks_a_rule(path: Path) -> None:
    found = set().union(*(broken_in(path, dialect) for dialect in DIALECTS))
    assert found == SENT_SO.get(named(path), set()) | WRITTEN_SO.get(named(path), set())


@pytest.mark.parametrize(("path", "dialect"), part_of(one_of_each(PLAIN, list(DIALECTS)), 2), ids=name_of)
def test_nothing_else_breaks_one(path: Path, dialect: str) -> None:
    assert broken_in(path, dialect) == set()


def broken_in(path: Path, name: str) -> set[str]:
    """In every form that an answer has in this dialect."""
    body, dialect, found = path.read_bytes(), DIALECTS[name], set[str]()
    for usage in (True, False):
        for stream in (True, False) if dialect.whole_object else (True,):
            out, _ = replay(
                body, source=path.parent.parent.name, target=name, model=MODEL, usage=usage, buffered=not stream
            )
            found |= broken_by(out, dialect, usage=usage, stream=stream)
    return found
