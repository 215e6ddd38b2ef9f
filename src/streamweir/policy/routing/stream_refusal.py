"""Upstreams that refuse to stream.

Some whole answers are asked for as a stream, so that it is known when they begin. A few models and accounts cannot
stream at all, or not with every parameter. Then the request is sent once more, for a whole answer; if that is answered,
the target is remembered (`server.request.attempt.repair`). Only a refusal that names the member counts: any other 400
goes to the caller.
"""

import re

from streamweir.core.errors import CallerError, StreamweirError

# The texts: "Your organization must be verified to stream this model." (OpenAI, with the member as `param`),
# "Unsupported value: 'stream' does not support true with this model" (OpenAI), "streaming is not supported with ..."
# (Groq and others), "Streaming is not available".
_MEMBER = re.compile(r"\bstream(?:s|ed|ing)?\b", re.IGNORECASE)
_REFUSAL = re.compile(
    r"unsupported|verified|disabled|cannot|can't"
    r"|(?:not|n't) (?:\w+ )?(?:supported|support|permitted|allowed|accepted|available|implemented|enabled|possible)",
    re.IGNORECASE,
)


def is_refusal_of_stream(error: StreamweirError) -> bool:
    """Whether the upstream refused the request (400, 422) because it was asked for a stream."""
    if not isinstance(error, CallerError) or error.code != "invalid_value":
        return False
    if error.param is not None:
        return error.param == "stream"
    return _MEMBER.search(error.message) is not None and _REFUSAL.search(error.message) is not None
