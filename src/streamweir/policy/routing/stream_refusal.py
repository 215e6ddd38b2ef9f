"""Upstreams that refuse to stream, or to be asked for usage.

- Every streamed request asks for usage with `stream_options`. Some servers, and older versions of others, refuse this
  member. Then the request is sent once more without it.
- Some whole answers are asked for as a stream, so that it is known when they begin. A few models and accounts cannot
  stream at all, or not with every parameter. Then the request is sent once more, for a whole answer.

If that is answered, the target is remembered (`server.request.attempt.repair`). Only a refusal that names the member
counts: any other 400 goes to the caller.
"""

import re

from streamweir.core.errors import CallerError, StreamweirError

_OPTIONS = re.compile(r"\b(?:stream_options|include_usage)\b")
# The texts: "Unknown parameter: 'stream_options'." (OpenAI, Azure), "Unrecognized request argument supplied"
# (older Azure), "Extra inputs are not permitted" (Mistral, vLLM and all that use pydantic), `unknown field` (Go and
# Rust servers), "Additional properties are not allowed ('stream_options' was unexpected)" (JSON Schema),
# "Unsupported parameter: stream_options", "stream_options is only allowed when ...".
_OPTIONS_REFUSED = re.compile(
    r"unknown|unrecogni[sz]ed|unexpected|unsupported|extra|extraneous|additional|invalid|forbidden|only"
    r"|(?:not|n't) (?:\w+ )?(?:supported|support|permitted|allowed|recogni[sz]ed|accepted|available|implemented)",
    re.IGNORECASE,
)
# The texts: "Your organization must be verified to stream this model." (OpenAI, with the member as `param`),
# "Unsupported value: 'stream' does not support true with this model" (OpenAI), "streaming is not supported with ..."
# (Groq and others), "Streaming is not available".
_STREAM = re.compile(r"\bstream(?:s|ed|ing)?\b", re.IGNORECASE)
_STREAM_REFUSED = re.compile(
    r"unsupported|verified|disabled|cannot|can't"
    r"|(?:not|n't) (?:\w+ )?(?:supported|support|permitted|allowed|accepted|available|implemented|enabled|possible)",
    re.IGNORECASE,
)


def is_refusal_of_stream_options(error: StreamweirError) -> bool:
    """Whether the upstream refused the request (400, 422) because of that member."""
    if not _is_of_a_value(error):
        return False
    if error.param is not None:
        return _OPTIONS.search(error.param) is not None
    return _OPTIONS.search(error.message) is not None and _OPTIONS_REFUSED.search(error.message) is not None


def is_refusal_of_stream(error: StreamweirError) -> bool:
    """Whether the upstream refused the request (400, 422) because it was asked for a stream."""
    if not _is_of_a_value(error):
        return False
    if error.param is not None:
        return error.param == "stream"
    return _STREAM.search(error.message) is not None and _STREAM_REFUSED.search(error.message) is not None


def _is_of_a_value(error: StreamweirError) -> bool:
    return isinstance(error, CallerError) and error.code == "invalid_value"
