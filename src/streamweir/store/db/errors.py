"""Why something in the database was not changed or not found, in words for the user.

    OperationRefused
    +-- Invalid     the request is not valid; `param` is the invalid part
    +-- NotFound    the object does not exist, or the caller has no access to it
    +-- Conflict    it conflicts with existing data: a name that is in use, a key of the configuration file

The message contains no secret, and quoted text of the caller is shortened. The caller of the store chooses the form
(an HTTP status, a line).
"""

from streamweir.core.text import cut
from streamweir.policy.secret import ADMIN, CSRF, INVITATION, KEY, SESSION

_MAX_QUOTED = 80
_SECRETS = (KEY, ADMIN, SESSION, CSRF, INVITATION)
"""The prefixes of our secrets: some users search for a key by its secret."""


class OperationRefused(Exception):
    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class Invalid(OperationRefused):
    pass


class NotFound(OperationRefused):
    pass


class Conflict(OperationRefused):
    pass


def quoted(text: str) -> str:
    """The user's text for a message: short, on one line, without secrets."""
    if text.startswith(_SECRETS):
        return "***"
    return repr(cut(text, _MAX_QUOTED))
