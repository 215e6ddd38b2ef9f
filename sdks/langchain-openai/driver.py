"""LangChain's `ChatOpenAI`: `stream` and `invoke`; and its `OpenAIEmbeddings`."""

import openai
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from observe import Job, Seen, absent, raised, run, saw
from pydantic import SecretStr


def chat(job: Job, model: str, key: str | None = None) -> ChatOpenAI:
    return ChatOpenAI(
        model=model,
        base_url=job["base_url"],
        api_key=SecretStr(key or job["key"]),
        max_tokens=job["max_tokens"],
        temperature=0,
        stream_usage=True,
    )


def whole(model: ChatOpenAI, prompt: str) -> AIMessageChunk:
    """A stream, added up as its users do."""
    chunks = list(model.stream(prompt))
    message = chunks[0]
    for chunk in chunks[1:]:
        message += chunk
    return message


def text(job: Job, model: str) -> Seen:
    llm = chat(job, model)
    return saw(streamed=whole(llm, job["prompt"]).text, buffered=llm.invoke(job["prompt"]).text)


def tools(job: Job, model: str) -> Seen:
    llm = chat(job, model).bind_tools([{"type": "function", "function": job["tool"]}])
    pieces: dict[int, dict[str, str]] = {}
    for chunk in llm.stream(job["prompt"]):
        for piece in chunk.tool_call_chunks:
            call = pieces.setdefault(piece["index"], {"name": "", "arguments": ""})
            call["name"] += piece["name"] or ""
            call["arguments"] += piece["args"] or ""
    added = [{"name": call["name"], "arguments": call["args"]} for call in whole(llm, job["prompt"]).tool_calls]
    buffered = [{"name": call["name"], "arguments": call["args"]} for call in llm.invoke(job["prompt"]).tool_calls]
    return saw(streamed=list(pieces.values()), helper=added, buffered=buffered)


def reasoning(job: Job, model: str) -> Seen:
    def found(message: AIMessage) -> str:
        blocks = [block["reasoning"] for block in message.content_blocks if block["type"] == "reasoning"]
        return "".join(blocks) or message.additional_kwargs.get("reasoning_content", "")

    llm = chat(job, model)
    streamed, buffered = found(whole(llm, job["prompt"])), found(llm.invoke(job["prompt"]))
    if not streamed and not buffered:
        return absent("ChatOpenAI takes no fields that are not in OpenAI's own API, as its documentation says")
    return saw(streamed=streamed, buffered=buffered)


def usage(job: Job, model: str) -> Seen:
    llm = chat(job, model)
    seen = {}
    for name, message in (("streamed", whole(llm, job["prompt"])), ("buffered", llm.invoke(job["prompt"]))):
        found = message.usage_metadata
        seen[name] = found and [found["input_tokens"], found["output_tokens"], found["total_tokens"]]
    return saw(**seen)


def embeddings(job: Job, model: str) -> Seen:
    """Without its own count of tokens, for which it loads a vocabulary from the network."""
    api = OpenAIEmbeddings(
        model=model,
        base_url=job["base_url"],
        api_key=SecretStr(job["key"]),
        check_embedding_ctx_length=False,
    )
    return saw(vectors=api.embed_documents(job["inputs"]))


def error(job: Job, model: str) -> Seen:
    before = ""
    try:
        for chunk in chat(job, model).stream(job["prompt"]):
            before += chunk.text
    except openai.APIError as failure:
        return raised(failure, getattr(failure, "status_code", None), before)
    return saw(streamed=before)


def key(job: Job, model: str) -> Seen:
    return refusal(job, model, job["wrong_key"])


def refused(job: Job, model: str) -> Seen:
    return refusal(job, model, job["key"])


def refusal(job: Job, model: str, key: str) -> Seen:
    try:
        list(chat(job, model, key).stream(job["prompt"]))
    except openai.APIStatusError as failure:
        return raised(failure, failure.status_code)
    return saw()


if __name__ == "__main__":
    checks = {"text": text, "tools": tools, "reasoning": reasoning, "usage": usage}
    run({**checks, "embeddings": embeddings, "error": error, "refused": refused, "key": key})
