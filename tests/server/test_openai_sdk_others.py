"""The official SDK for Python on the other APIs: embeddings, and legacy text completions."""

import pytest
from openai import APIError, AsyncOpenAI, BadRequestError

from support.gateway import KEY, Gate, gateway

SIM = '[[providers]]\nname = "sim"\nkind = "sim"\n'


def client_of(gate: Gate) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{gate.base_url}/v1", api_key=KEY, max_retries=0)


async def test_embeddings() -> None:
    """It asks for base64 unless told otherwise, and unpacks it."""
    async with gateway(SIM) as gate, client_of(gate) as client:
        made = await client.embeddings.create(model="sim/embed", input=["a", "b"], dimensions=16)
        plain = await client.embeddings.create(model="sim/embed", input="a", dimensions=16, encoding_format="float")
        assert [len(item.embedding) for item in made.data] == [16, 16]
        assert made.data[0].embedding == pytest.approx(plain.data[0].embedding)
        assert made.usage.prompt_tokens == made.usage.total_tokens == 2
        with pytest.raises(BadRequestError) as caught:
            await client.embeddings.create(model="sim/embed", input="")
        assert (caught.value.code, caught.value.param) == ("invalid_value", "input")


async def test_completions() -> None:
    async with gateway(SIM) as gate, client_of(gate) as client:
        whole = await client.completions.create(model="sim/echo", prompt=["one two", "three"], max_tokens=20)
        assert [(choice.text, choice.finish_reason) for choice in whole.choices] == [
            ("one two", "stop"),
            ("three", "stop"),
        ]
        assert whole.usage is not None
        texts = {0: "", 1: ""}
        usage = None
        async for chunk in await client.completions.create(
            model="sim/echo", prompt=["one two", "three"], stream=True, stream_options={"include_usage": True}
        ):
            for choice in chunk.choices:
                texts[choice.index] += choice.text
            usage = chunk.usage or usage
        assert texts == {0: "one two", 1: "three"}
        assert usage == whole.usage


async def test_a_cut_completion_is_an_error() -> None:
    async with gateway(SIM) as gate, client_of(gate) as client:
        texts: list[str] = []

        async def read() -> None:
            async for chunk in await client.completions.create(model="sim/cut?at=3", prompt="x", stream=True):
                texts.extend(choice.text for choice in chunk.choices)

        with pytest.raises(APIError) as caught:
            await read()
        assert caught.value.code == "upstream_stream_truncated"
        assert texts
