"""What a caller says about a request: the end user that it is made for, its session, and tags.

Headers of the gateway count before the body: `x-streamweir-user`, `x-streamweir-session`, `x-streamweir-tags`. In the
body, each API has members of its own (`Frontend.end_user_in`, `Frontend.session_in`); `metadata` of chat completions
and Responses has tags. A caller is never refused because of them: what is too long is cut, and what is too much is left
out. The texts are as they were sent: `Recorder` makes of them what may be kept, by the operator's rule.
"""

from collections.abc import Callable, Mapping
from functools import cache
from itertools import islice

from msgspec import Struct

from streamweir.core.request import ChatRequest
from streamweir.frontends.base import Frontend
from streamweir.policy.end_user import EndUserRule, hash_of_sent, looks_hashed
from streamweir.policy.routing.conversation import session_of

MAX_LENGTH = 256
"""Characters of an end user, a session or a tag, as they are kept."""
MAX_TAGS = 16
USER_HEADER = "x-streamweir-user"
SESSION_HEADER = "x-streamweir-session"
TAGS_HEADER = "x-streamweir-tags"
_USER_MEMBER, _SESSION_MEMBER = "user_id", "session_id"
_MAX_READ = 4 * MAX_LENGTH
"""Characters of a text that are looked at."""
_MAX_KNOWN = 4096


class Attribution(Struct, frozen=True, gc=False):
    end_user: str | None = None
    session: str | None = None
    tags: tuple[str, ...] = ()
    """`name=value`, or a name alone."""


NOTHING = Attribution()


def read_attribution(request: ChatRequest, frontend: Frontend, headers: Mapping[str, str]) -> Attribution:
    """As the caller sent it. `headers`: their names in lower case."""
    has_members = request.user or request.safety_identifier or request.metadata or request.native
    if not has_members and _names(frontend.session_headers).isdisjoint(headers):
        return NOTHING  # nearly always
    metadata, sent_tags = request.metadata, headers.get(TAGS_HEADER)
    end_user = headers.get(USER_HEADER) or frontend.end_user_in(request)
    session = headers.get(SESSION_HEADER) or session_of(request, frontend, headers)
    if not metadata and sent_tags is None:
        return Attribution(end_user or None, session) if end_user or session else NOTHING
    metadata = metadata or {}
    return Attribution(
        end_user or metadata.get(_USER_MEMBER) or None,
        session or metadata.get(_SESSION_MEMBER) or None,
        _read_tags(metadata, sent_tags or ""),
    )


@cache
def _names(session_headers: tuple[str, ...]) -> frozenset[str]:
    return frozenset((USER_HEADER, SESSION_HEADER, TAGS_HEADER, *session_headers))


def _read_tags(metadata: Mapping[str, str], sent: str) -> tuple[str, ...]:
    """Those of the header first: they replace members of `metadata` with the same name."""
    found: dict[str, str] = {}
    for part in islice(sent.split(",", MAX_TAGS), MAX_TAGS):
        name, _, value = part.partition("=")
        if name.strip():
            found[name.strip()] = value.strip()
    for name, value in islice(metadata.items(), 2 * MAX_TAGS):
        if name and name not in (_USER_MEMBER, _SESSION_MEMBER):
            found.setdefault(name, value)
    return tuple([f"{name}={value}" if value else name for name, value in islice(found.items(), MAX_TAGS)])


class Recorder:
    """Makes of an attribution what may be kept. `redact` masks secrets in a text and cuts it to `MAX_LENGTH`; nearly
    all texts were seen before, so its results are kept, for a bounded number of them."""

    def __init__(self, end_user: EndUserRule, redact: Callable[[str], str]) -> None:
        self._rule = end_user
        self._redact = redact
        self._known: dict[str, str] = {}

    def read(self, request: ChatRequest, frontend: Frontend, headers: Mapping[str, str]) -> Attribution:
        """The attribution of a request, as it is recorded."""
        sent = read_attribution(request, frontend, headers)
        if sent is NOTHING:
            return sent
        end_user = sent.end_user
        if end_user is not None:
            end_user = self._end_user(end_user[:_MAX_READ]) if self._rule != "none" else None
        session = self._recorded(sent.session) if sent.session is not None else None
        if not sent.tags:
            return Attribution(end_user or None, session or None)
        tags = dict.fromkeys([self._recorded(tag) for tag in sent.tags])
        return Attribution(end_user or None, session or None, tuple([tag for tag in tags if tag]))

    def _end_user(self, text: str) -> str:
        """Of a text that is masked or cut, the digest: else all whose secrets are masked had one budget together."""
        if self._rule == "hash":
            return hash_of_sent(text)
        recorded = self._recorded(text)
        is_kept = recorded == text.strip() and not looks_hashed(recorded)
        return hash_of_sent(text) if recorded and not is_kept else recorded

    def _recorded(self, text: str) -> str:
        text = text[:_MAX_READ]
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            known = self._known[text] = self._redact(text).strip()
        return known
