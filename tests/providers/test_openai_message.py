"""Messages and reasoning for OpenAI-style vendors: what is sent back, in which format, and what is left out."""

from typing import Any

import pytest

from streamweir.providers.openai.vendor import Effort
from streamweir.wire import jsonio
from support.openai_body import HELLO, plain, sent_by


class TestReasoning:
    @pytest.mark.parametrize(
        ("effort", "asked", "members", "dropped"),
        [
            (Effort.WORD, {"reasoning_effort": "low"}, {"reasoning_effort": "low"}, ()),
            (Effort.WORD, {"reasoning": {"effort": "high"}}, {"reasoning_effort": "high"}, ()),
            (Effort.WORD, {"reasoning": {"enabled": False}}, {"reasoning_effort": "none"}, ()),
            (Effort.WORD, {"reasoning": {"enabled": True, "exclude": True}}, {}, ()),
            (Effort.WORD, {"reasoning": {"max_tokens": 9, "summary": "auto"}}, {}, ("max_tokens", "summary")),
            (Effort.OBJECT, {"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}, ()),
            (
                Effort.OBJECT,
                {"reasoning": {"max_tokens": 9, "exclude": True, "their_own": 1}},
                {"reasoning": {"max_tokens": 9, "exclude": True, "their_own": 1}},
                (),
            ),
            (
                Effort.SWITCH,
                {"reasoning_effort": "high"},
                {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
                (),
            ),
            (Effort.SWITCH, {"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}, ()),
            (Effort.SWITCH, {"reasoning": {"enabled": True}}, {"thinking": {"type": "enabled"}}, ()),
            (Effort.SWITCH, {"reasoning": {"max_tokens": 9}}, {}, ("max_tokens",)),
            (
                Effort.SWITCH,
                {"reasoning": {"enabled": True}, "thinking": {"type": "disabled"}},
                {"thinking": {"type": "disabled"}},
                (),
            ),
            (Effort.ENABLE, {"reasoning_effort": "none"}, {"enable_thinking": False}, ()),
            (Effort.ENABLE, {"reasoning": {"max_tokens": 9}}, {"enable_thinking": True, "thinking_budget": 9}, ()),
            (Effort.ENABLE, {"reasoning": {"effort": "low"}}, {"enable_thinking": True}, ("effort",)),
            (Effort.ENABLE, {"reasoning": {"enabled": True}}, {"enable_thinking": True}, ()),
            (Effort.ENABLE, {"reasoning": {"summary": "auto", "exclude": True}}, {}, ("summary",)),
            (Effort.NONE, {"reasoning": {"effort": "low", "enabled": True}}, {}, ("effort",)),
            (Effort.NONE, {"reasoning": {"enabled": False}}, {}, ("enabled",)),
            (
                Effort.WORD,
                {"reasoning": {"effort": "low", "their_own": 1}},
                {"reasoning_effort": "low"},
                ("their_own",),
            ),
        ],
    )
    def test_is_asked_for_in_the_vendors_way(
        self, effort: Effort, asked: dict[str, Any], members: dict[str, Any], dropped: tuple[str, ...]
    ) -> None:
        body, left_out = sent_by(plain(effort=effort), asked)
        assert body == {"model": "their-name", "messages": [HELLO], **members}
        assert left_out == tuple(f"reasoning.{name}" for name in dropped)

    @pytest.mark.parametrize(
        ("asked", "members", "dropped"),
        [
            ({"reasoning_effort": "high"}, {"reasoning_effort": "high"}, ()),
            ({"reasoning_effort": "medium"}, {}, ("reasoning_effort",)),
            ({"reasoning": {"effort": "low"}}, {}, ("reasoning.effort",)),
            ({"reasoning": {"enabled": False}}, {"reasoning_effort": "none"}, ()),
            ({"reasoning": {"enabled": True}}, {}, ()),
        ],
    )
    def test_an_effort_that_the_vendor_does_not_have_is_dropped(
        self, asked: dict[str, Any], members: dict[str, Any], dropped: tuple[str, ...]
    ) -> None:
        body, left_out = sent_by(plain(efforts=frozenset({"none", "high"})), asked)
        assert body == {"model": "their-name", "messages": [HELLO], **members}
        assert left_out == dropped

    def test_a_model_without_reasoning_effort_gets_none_at_all(self) -> None:
        vendor = plain(model_refuses=(("their", frozenset({"reasoning_effort"})),))
        body, dropped = sent_by(vendor, {"reasoning": {"enabled": False}})
        assert body == {"model": "their-name", "messages": [HELLO]}
        assert dropped == ("reasoning.enabled",)

    def test_the_short_form_is_named_as_it_was_sent(self) -> None:
        assert sent_by(plain(effort=Effort.NONE), {"reasoning_effort": "low"})[1] == ("reasoning_effort",)


class TestMessages:
    def test_a_developer_is_a_system_where_there_is_no_developer(self) -> None:
        messages = [{"role": "developer", "content": "be brief"}, HELLO]
        assert sent_by("groq", {"messages": messages})[0]["messages"][0]["role"] == "system"
        assert sent_by("openai", {"messages": messages})[0]["messages"][0]["role"] == "developer"

    def test_cache_marks_are_kept_only_where_they_are_taken(self) -> None:
        mark = {"cache_control": {"type": "ephemeral"}}
        asked: dict[str, Any] = {
            "messages": [
                {"role": "system", "content": "s", **mark},
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", **mark}]},
            ],
            "tools": [{"type": "function", "function": {"name": "f"}, **mark}],
        }
        body, dropped = sent_by("openrouter", asked)
        assert (body["messages"], body["tools"]) == (asked["messages"], asked["tools"])
        assert dropped == ()
        body, dropped = sent_by("openai", asked)
        assert b"cache_control" not in jsonio.encode(body)
        assert dropped == (
            "messages[0].cache_control",
            "messages[1].content[1].cache_control",
            "tools[0].cache_control",
        )

    def test_reasoning_goes_back_where_it_is_taken(self) -> None:
        details = [{"type": "reasoning.text", "text": "hm", "signature": "s", "index": 0}]
        said = {"role": "assistant", "content": "4", "reasoning_content": "hm", "reasoning_details": details}
        asked = {"messages": [HELLO, said, HELLO]}

        body, dropped = sent_by("openrouter", asked)
        assert body["messages"][1] == {
            "role": "assistant",
            "content": "4",
            "reasoning": "hm",
            "reasoning_details": details,
        }
        assert dropped == ()

        body, dropped = sent_by("deepseek", asked)
        assert body["messages"][1] == {"role": "assistant", "content": "4", "reasoning_content": "hm"}
        assert dropped == ("messages[1].reasoning_details",)

        body, dropped = sent_by("openai", asked)
        assert body["messages"][1] == {"role": "assistant", "content": "4"}
        assert dropped == ("messages[1].reasoning_details", "messages[1].reasoning_content")

    def test_empty_reasoning_is_dropped_silently(self) -> None:
        said = {"role": "assistant", "content": "4", "reasoning_content": "", "reasoning": None}
        body, dropped = sent_by("openai", {"messages": [said]})
        assert body["messages"] == [{"role": "assistant", "content": "4"}]
        assert dropped == ()

    def test_an_answer_that_a_client_sends_back_as_it_came_is_taken(self) -> None:
        call = {"id": "D681PevKs", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        came = {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "annotations": [],
            "audio": None,
            "function_call": None,
            "tool_calls": [call],
            "reasoning_content": None,
        }
        clean = {"role": "assistant", "content": None, "tool_calls": [call]}
        for name in ("groq", "mistral", "cerebras"):
            body, dropped = sent_by(name, {"messages": [HELLO, came]})
            assert body["messages"][1] == clean
            assert dropped == ()
        assert sent_by("openai", {"messages": [HELLO, came]})[0]["messages"][1] == {**clean, "annotations": []}

    def test_what_a_strict_vendor_does_not_take_on_a_message_is_named(self) -> None:
        said = {"role": "assistant", "content": "x", "prefix": True, "audio": {"id": "a"}}
        body, dropped = sent_by("mistral", {"messages": [HELLO, said]})
        assert body["messages"][1] == {"role": "assistant", "content": "x", "prefix": True}
        assert dropped == ("messages[1].audio",)
        assert sent_by("openai", {"messages": [HELLO, said]})[0]["messages"][1] == said

    def test_calls_that_another_vendor_made_get_ids_that_are_taken(self) -> None:
        function = {"name": "f", "arguments": "{}"}
        ids = ["call_990c393e2c1c44f8b22a09c1", "toolu_01", "D681PevKs"]
        messages = [
            {"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": function} for id in ids]},
            *({"role": "tool", "tool_call_id": id, "content": "x"} for id in reversed(ids)),
        ]
        called, *results = sent_by("mistral", {"messages": messages})[0]["messages"]
        taken = [call["id"] for call in called["tool_calls"]]
        assert taken[2] == "D681PevKs"
        assert len(set(taken)) == 3
        assert all(len(id) == 9 and id.isalnum() for id in taken)
        assert [result["tool_call_id"] for result in results] == taken[::-1]
        assert sent_by("openai", {"messages": messages})[0]["messages"] == messages

    def test_a_failed_tool_result_has_no_member_on_this_wire(self) -> None:
        result = {"role": "tool", "tool_call_id": "c", "content": "boom", "is_error": True}
        body, dropped = sent_by("openai", {"messages": [HELLO, result]})
        assert body["messages"][1] == {"role": "tool", "tool_call_id": "c", "content": "boom"}
        assert dropped == ("messages[1].is_error",)

    def test_names_are_dropped_where_they_are_refused(self) -> None:
        named = {"role": "user", "content": "hi", "name": "ann"}
        assert sent_by("openai", {"messages": [named]})[0]["messages"] == [named]
        body, dropped = sent_by("groq", {"messages": [named]})
        assert body["messages"] == [{"role": "user", "content": "hi"}]
        assert dropped == ("messages[0].name",)
