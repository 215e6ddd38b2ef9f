"""What a cloud's refusal means, and what to do about it: a table from the cloud's words to the gateway's error.

`providers.failure` decides whose fault a failure is, in the same way for all providers. The clouds have failures that
an operator must tell apart, because each has another remedy: expired credentials, a missing permission, no access to a
model, another region. A row of a table recognises one of them by the name that the cloud gives it, or by the beginning
of its message, and has the message for it. A caller's words can be quoted in a message, but not at its beginning.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from streamweir.core.errors import ErrorReport, StreamweirError, UpstreamError

ReadError = Callable[[int, Mapping[str, str], bytes], StreamweirError]
"""As `Provider.read_error`."""
ErrorReader = Callable[[int, Mapping[str, str], bytes, ReadError], StreamweirError]
"""Reads a failed response with a table of its own, and what that does not know with the reader of the wire."""

UNKNOWN_HOST = {
    "bedrock": "Maybe there is no such region, or it has no Amazon Bedrock: check region, or base_url.",
    "bedrock-mantle": "Maybe there is no such region, or it does not have this service: check region, or base_url.",
    "vertex": "Maybe there is no such location: check location, or base_url.",
    "azure": "Maybe there is no such resource: check its name in base_url.",
}
"""By the kind of provider: what to do if its name cannot be looked up."""
_SEARCHED_LENGTH = 600


class Advice(NamedTuple):
    """One failure. It is recognised if all that the row has fits."""

    code: str
    """Of an `UpstreamError`."""
    message: str
    """With `{}` for the first group of `text`."""
    names: tuple[str, ...] = ()
    """Names of the failure, in lower case. None: any."""
    text: str = ""
    """A pattern for the beginning of the cloud's message, without regard to case."""
    statuses: tuple[int, ...] = ()
    is_of_account: bool = False
    """The credential is refused for every model."""


def advised(
    rows: Sequence[Advice], names: Collection[str], text: str, status: int, error: StreamweirError
) -> StreamweirError:
    """The error of the first row that fits, else `error`. `names`: in lower case."""
    for row in rows:
        if (row.names and not any(name in names for name in row.names)) or (
            row.statuses and status not in row.statuses
        ):
            continue
        found = re.match(row.text, text[:_SEARCHED_LENGTH], re.IGNORECASE | re.DOTALL) if row.text else None
        if row.text and found is None:
            continue
        message = row.message.format(found[1]) if found is not None and found.re.groups else row.message
        better = UpstreamError(row.code, message, retry_after_s=error.retry_after_s)
        better.is_of_account = row.is_of_account
        better.is_only_in_text = not row.names and status not in (401, 403)
        better.report = structs.replace(error.report or ErrorReport(), advice=message)
        better.is_of_wire = error.is_of_wire
        return better
    return error
