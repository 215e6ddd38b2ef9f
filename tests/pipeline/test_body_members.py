"""Which members of request bodies the operator may set and drop, and why not the others."""

import pytest

from streamweir.pipeline.body_members import fault_of_drop, fault_of_member, is_limit, leaves


def path(name: str) -> tuple[str, ...]:
    return tuple(name.split("."))


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("model", "chooses the model"),
        ("models", "chooses the model"),
        ("messages", "the caller's input"),
        ("system", "the caller's input"),
        ("systemInstruction", "the caller's input"),
        ("system_instruction.parts", "the caller's input"),
        ("contents", "the caller's input"),
        ("input", "the caller's input"),
        ("instructions", "the caller's input"),
        ("tools", "not reserved"),
        ("web_search_options.search_context_size", "not reserved"),
        ("stream", "how the answer is read"),
        ("stream_options.include_usage", "how the answer is read"),
        ("background", "how the answer is read"),
        ("encoding_format", "how the answer is read"),
        ("generationConfig.responseModalities", "how the answer is read"),
        ("n", "how many answers"),
        ("best_of", "how many answers"),
        ("generationConfig.candidateCount", "how many answers"),
        ("generation_config.candidate_count", "how many answers"),
        ("service_tier", "changes the price"),
        ("serviceTier", "changes the price"),
        ("speed", "changes the price"),
        ("store", "store the conversation"),
        ("previous_response_id", "store the conversation"),
        ("api_key", "a setting of the provider"),
        ("extra_body", "a setting of the provider"),
        ("generationConfig", "must be a table"),
        ("toolConfig.toolChoice", "not reserved"),
        ("performanceConfig.latency", "changes the price"),
        ("additionalModelRequestFields.speed", "changes the price"),
        ("inferenceConfig", "must be a table"),
    ],
)
def test_what_must_not_be_set(name: str, part: str) -> None:
    fault = fault_of_member(path(name), 1)
    assert fault is not None
    assert part in fault


@pytest.mark.parametrize(
    "name",
    [
        "temperature",
        "top_p",
        "reasoning_effort",
        "thinking.budget_tokens",
        "generationConfig.thinkingConfig.thinkingLevel",
        "generationConfig.temperature",
        "safetySettings",
        "guardrailConfig.guardrailIdentifier",
        "additionalModelRequestFields.anthropic_beta",
        "provider.data_collection",
        "prompt_cache_key",
        "metadata.user_id",
        "parallel_tool_calls",
        "user",
        "number",
    ],
)
def test_what_may_be_set_and_dropped(name: str) -> None:
    assert fault_of_member(path(name), "x") is None
    assert fault_of_drop(path(name)) is None


@pytest.mark.parametrize(
    "name",
    [
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "maxOutputTokens",
        "generationConfig.maxOutputTokens",
        "inferenceConfig.maxTokens",
    ],
)
def test_a_limit_may_be_set_to_a_number_and_not_dropped(name: str) -> None:
    assert is_limit(path(name))
    assert fault_of_member(path(name), 100) is None
    for value in (0, -1, 1.5, "100", True, None):
        assert fault_of_member(path(name), value) == "must be a whole number above 0"
    fault = fault_of_drop(path(name))
    assert fault is not None
    assert "limit of the answer" in fault


@pytest.mark.parametrize("name", ["model", "messages", "stream", "n", "service_tier", "store", "generationConfig"])
def test_what_must_not_be_dropped(name: str) -> None:
    assert fault_of_drop(path(name)) is not None


@pytest.mark.parametrize("name", ["tools", "web_search_options", "plugins", "tools.type"])
def test_what_costs_more_may_be_dropped(name: str) -> None:
    assert fault_of_drop(path(name)) is None


@pytest.mark.parametrize("name", ["", ".", "a..b", "a."])
def test_what_is_no_path_cannot_be_dropped(name: str) -> None:
    fault = fault_of_drop(path(name))
    assert fault is not None
    assert "expected the name" in fault


def test_the_leaves_of_a_table_have_their_paths() -> None:
    table = {"a": 1, "b": {"c": [2], "d": {"e": None}, "f": {}}}
    assert list(leaves(table)) == [(("a",), 1), (("b", "c"), [2]), (("b", "d", "e"), None), (("b", "f"), {})]
