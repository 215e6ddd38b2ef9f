"""A completion as one response, for a caller that did not request a stream.

The output has the same items as a stream, in the same order. It always has usage.
"""

from streamweir.core.completion import Completion, FoldedChoice, Run
from streamweir.frontends.base import Reply
from streamweir.frontends.responses.echo import ResponseState
from streamweir.frontends.responses.finish import ending_of
from streamweir.frontends.responses.output import Output
from streamweir.frontends.responses.text import Document, annotations_in, logprobs_in
from streamweir.wire import jsonio


def encode_whole(completion: Completion, reply: Reply) -> bytes:
    output = Output(reply)
    choice = next((each for each in completion.choices if each.index == 0), None)
    if choice is not None:
        _feed(output, choice, reply)
    ending = ending_of(choice.reason if choice is not None else None)
    output.close(ending.is_cut)
    response = ResponseState(reply)
    if isinstance(completion.started.service_tier, str):
        response.service_tier = completion.started.service_tier
    usage = completion.usage or reply.count_usage()
    return jsonio.encode(response.document(ending.status, output.items, usage, reason=ending.reason))


def _feed(output: Output, choice: FoldedChoice, reply: Reply) -> None:
    logprobs: list[Document] = []
    for run in choice.runs:
        match run.kind:
            case Run.CALL:
                call = choice.calls[run.call]
                output.call(run.call, call.id, call.name, call.custom)
                output.arguments(run.call, call.arguments)
                logprobs = []
            case Run.TEXT:
                output.text(run.text, logprobs)
                logprobs = []
            case Run.REFUSAL:
                output.refusal(run.text)
            case Run.LOGPROBS if reply.shows_logprobs:
                logprobs = logprobs_in(run.details[0] if run.details else None)
            case Run.ANNOTATIONS:
                output.annotate(annotations_in(run.details[0]))
            case Run.REASONING if not reply.exclude_reasoning:
                output.reasoning(run.text, run.details)
