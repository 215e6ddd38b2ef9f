"""Upstreams that refuse `stream_options`.

Every streamed request asks for usage with `stream_options`. Some servers, and older versions of others, refuse this
member. Then the request is sent once more without it; if that is answered, the target is remembered
(`server.request.attempt.repair`). Only a refusal that names the member counts: any other 400 goes to the caller.
"""

import re

from streamweir.core.errors import CallerError, StreamweirError

_MEMBER = re.compile(r"\b(?:stream_options|include_usage)\b")
# The texts: "Unknown parameter: 'stream_options'." (OpenAI, Azure), "Unrecognized request argument supplied"
# (older Azure), "Extra inputs are not permitted" (Mistral, vLLM and all that use pydantic), `unknown field` (Go and
# Rust servers), "Additional properties are not allowed ('stream_options' was unexpected)" (JSON Schema),
# "Unsupported parameter: stream_options", "stream_options is only allowed when ...".
_REFUSAL = re.compile(
    r"unknown|unrecogni[sz]ed|unexpected|unsupported|extra|extraneous|additional|invalid|forbidden|only"
    r"|(?:not|n't) (?:\w+ )?(?:supported|support|permitted|allowed|recogni[sz]ed|accepted|available|implemented)",
    re.IGNORECASE,
)


def is_refusal_of_stream_options(error: StreamweirError) -> bool:
    """Whether the upstream refused the request (400, 422) because of that member."""
    if not isinstance(error, CallerError) or error.code != "invalid_value":
        return False
    if error.param is not None:
        return _MEMBER.search(error.param) is not None
    return _MEMBER.search(error.message) is not None and _REFUSAL.search(error.message) is not None
