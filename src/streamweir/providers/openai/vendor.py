"""A vendor that speaks the OpenAI wire, as data.

Every field is a way in which vendors were seen or are documented to differ; the defaults are
those of a careful guess at an unknown server. Adding a vendor is adding a row to
`providers.compatible`; a difference that no field can say becomes a new field here, never an
`if` on a name.
"""

import re
from enum import StrEnum

from msgspec import Struct

from streamweir.wire.native import NativeWire

_REASONS = re.compile(r"(^|[/.])(o[134](-|$)|gpt-5)")


class Effort(StrEnum):
    """How a vendor is asked for more or less reasoning."""

    WORD = "word"
    """`reasoning_effort: "low"`, as OpenAI does."""
    OBJECT = "object"
    """`reasoning: {effort, max_tokens, exclude, ...}`, as OpenRouter does."""
    SWITCH = "switch"
    """`thinking: {"type": "enabled" | "disabled"}`, with `reasoning_effort` beside it for the level."""
    ENABLE = "enable"
    """`enable_thinking: true | false`, with `thinking_budget` beside it for a number of tokens."""
    NONE = "none"
    """It cannot be asked."""


class Vendor(Struct, frozen=True, kw_only=True):
    name: str
    base_url: str
    """The public address with its version prefix; for self-hosted servers, where they listen by default."""
    path: str = "/chat/completions"
    native_wire: NativeWire | None = None
    """The wire that this vendor writes to the byte, so that a frontend of the same wire may pass its frames on."""

    sends_finish: bool = True
    """False: no finish reason ever comes; `[DONE]` alone ends the answer."""
    names_stop_sequence: bool = False
    """True: the `stop_reason` beside a finish reason is the stop sequence that ended the answer."""
    abort_stops_billing: bool = False
    """Closing the connection ends the work and the bill. False: both are known to go on, or nothing is known."""
    takes_stream_options: bool = True
    """False: it refuses `stream_options`, and reports usage unasked if at all."""

    takes_developer_role: bool = False
    """False: `developer` messages are sent as `system`."""
    system_first: bool = False
    """True: its templates refuse a system message that is not the first, which other APIs allow."""
    takes_names: bool = True
    """False: `name` is refused on messages."""
    limit_member: str | None = None
    """The one name under which the limit of the answer is taken; None: under either."""
    added_limit: str = "max_tokens"
    """Where either is taken, the name for a limit that the caller did not set and the gateway does: see
    `limit_added_for`."""
    renames: tuple[tuple[str, str], ...] = ()
    """Members that go under another name: ours, theirs."""
    refuses: frozenset[str] = frozenset()
    """Members that the vendor answers with an error, or is documented to ignore: left out and named.

    Only `n` is not left out: asked for several choices, the vendor is not asked at all.
    """
    model_refuses: tuple[tuple[str, frozenset[str]], ...] = ()
    """The same for some of its models: a pattern for the beginning of their names, and the members."""
    message_members: frozenset[str] | None = None
    """All that it takes on a message, where it refuses the others; None: it does not look."""
    call_id_length: int | None = None
    """The ids of tool calls must be this many letters and digits; None: any id that a vendor made."""
    max_temperature: float = 2.0
    takes_text_only: bool = False
    """True: a part of a message that is no text is refused, for without it the request is another one."""
    formats: frozenset[str] = frozenset({"json_object", "json_schema"})
    """The types of `response_format` that it takes, besides `text`."""
    effort: Effort = Effort.WORD
    efforts: frozenset[str] | None = None
    """The words of `reasoning_effort` that it takes; None: it knows best."""
    takes_cache_control: bool = False
    """False: `cache_control` is refused on messages, parts and tools."""
    reasoning_text: str = ""
    """The member of an assistant message in which its reasoning is taken back; none: it is not."""
    takes_reasoning_details: bool = False

    def refused_by(self, model: str) -> frozenset[str]:
        """The members that this model of the vendor's does not take."""
        refused = self.refuses
        for pattern, members in self.model_refuses:
            if re.match(pattern, model):
                refused |= members
        return refused

    def limit_added_for(self, model: str) -> str:
        """OpenAI's models that reason refuse the older name, whoever serves them."""
        return "max_completion_tokens" if _REASONS.search(model) else self.added_limit
