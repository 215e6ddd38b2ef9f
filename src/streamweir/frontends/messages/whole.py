"""A completion as one message: the answer to a request without `stream`.

The content is the fold of the same blocks that a stream contains, in the same order. It always contains usage.
"""

from streamweir.core.completion import Completion, FoldedChoice, Run
from streamweir.core.events import FinishReason
from streamweir.frontends.base import Reply, with_cost
from streamweir.frontends.messages.block import Blocks, Document
from streamweir.frontends.messages.encoder import message_document
from streamweir.frontends.messages.stop import stop_of
from streamweir.wire import jsonio
from streamweir.wire.messages import read_input

_EMPTY = FoldedChoice(0, None, None, [], None, [], None, {}, None, "")


def encode_whole(completion: Completion, reply: Reply) -> bytes:
    choice = next((each for each in completion.choices if each.index == 0), _EMPTY)
    blocks = Blocks(reply)
    content = _fold(_documents(blocks, choice, reply))
    stop = stop_of(
        choice.reason or FinishReason.OTHER,
        choice.raw_reason,
        choice.stop_sequence,
        has_calls=bool(choice.calls),
        has_refusal=choice.refusal is not None,
    )
    usage = completion.usage or reply.count_usage()
    message = message_document(reply, content, stop, usage)
    return jsonio.encode({**message, "usage": with_cost(message["usage"], usage, reply)})


def _documents(blocks: Blocks, choice: FoldedChoice, reply: Reply) -> list[Document]:
    documents: list[Document] = []
    for run in choice.runs:
        if run.kind is Run.CALL:
            call = choice.calls[run.call]
            documents += blocks.call(run.call, call.id, call.name, call.custom)
            documents += blocks.arguments(run.call, call.arguments)
        elif run.kind is not Run.REASONING:
            documents += blocks.text(run.text)
        elif not reply.exclude_reasoning:
            documents += blocks.reasoning(run.text, run.details)
    return [*documents, *blocks.close()]


def _fold(documents: list[Document]) -> list[Document]:
    """The blocks as a client has them at the end of the stream."""
    content: list[Document] = []
    arguments: dict[int, str] = {}
    for document in documents:
        index, delta = document["index"], document.get("delta")
        if "content_block" in document:
            content.append(document["content_block"])
        elif delta is not None and delta["type"] == "input_json_delta":
            arguments[index] = arguments.get(index, "") + delta["partial_json"]
        elif delta is not None:
            (member,) = (name for name in delta if name != "type")
            content[index][member] += delta[member]
    for index, text in arguments.items():
        content[index]["input"] = read_input(text)
    return content
