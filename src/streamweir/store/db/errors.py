"""Why something in the database is not changed, or not found, in words for the user.

    Objection
    +-- Invalid     what was asked for makes no sense; `param` says which part of it
    +-- NotFound    there is no such thing, or not within the asker's reach
    +-- Conflict    it does not go with what is there: a name that is taken, a key of the file

The message names no secret, and what it repeats of the asker's own text is cut. How it is told (a
status, a line) is not known here.
"""

from streamweir.policy.secret import ADMIN, CSRF, KEY, SESSION

_LONGEST = 80
_SECRETS = (KEY, ADMIN, SESSION, CSRF)
"""How ours begin: some look for a key by its secret."""


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
    """A foreign text in a message: short, on one line, and no secret."""
    if text.startswith(_SECRETS):
        return "***"
    return repr(text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "...")
