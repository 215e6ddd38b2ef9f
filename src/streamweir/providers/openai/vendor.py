"""A vendor that uses the OpenAI wire, as data.

Every field is an observed or documented difference between vendors; the defaults are conservative values for an unknown
server. Adding a vendor is adding a row to `providers.compatible`. A difference that no field can express becomes a new
field here, never an `if` on a name.
"""

import re
from enum import StrEnum

from msgspec import Struct

from streamweir.providers.advice import ErrorReader
from streamweir.wire.native import NativeWire
from streamweir.wire.responses import REASONING_FORMAT

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
    """It cannot be requested."""


class ResponsesWire(Struct, frozen=True, kw_only=True):
    """How a vendor serves OpenAI's Responses API."""

    path: str = "/responses"
    key_header: tuple[str, str] = ("authorization", "Bearer ")
    """The header of the key, and what stands before the key."""
    reasoning_format: str = REASONING_FORMAT
    """Of its encrypted reasoning."""
    takes_reasoning_text: bool = False
    """Reasoning goes back as text, where there is no encrypted form of it."""
    server_tools: frozenset[str] = frozenset()
    """Kinds of tools that it runs itself, and that a caller may ask for."""
    only: str = ""
    """A pattern of the models that it serves on this wire alone."""


class EmbeddingRow(Struct, frozen=True, kw_only=True):
    """How a vendor's embeddings differ from OpenAI's."""

    path: str = "/embeddings"
    max_inputs: int = 2048
    """Of one call; a request with more inputs becomes several calls. Most vendors document none below OpenAI's."""
    takes_base64: bool = True
    sends_int8: bool = False
    """True: vectors arrive as base64 of signed bytes, whatever was requested."""
    dimensions: str = "dimensions"
    """The member for the length of the vectors; empty: there is none."""
    dimensions_only: str = ""
    """A pattern of the models that take it, if not all do."""
    refuses: frozenset[str] = frozenset()
    """Members that are left out and named."""
    input_type: str = ""
    """The member that says what a text is for; empty: there is none."""
    default_input_type: str = ""
    """Its value if the caller sent none, for a vendor that requires one."""


class Vendor(Struct, frozen=True, kw_only=True):
    name: str
    base_url: str
    """The public address with its version prefix; for self-hosted servers, their default address."""
    path: str = "/chat/completions"
    native_wire: NativeWire | None = None
    """The streaming format that this vendor writes exactly: a frontend of the same format may pass its frames on."""

    responses: ResponsesWire | None = None
    """None: it is not known to have this wire."""
    completions: str = ""
    """A pattern of the models that it serves on the path of legacy text completions, too; empty: none."""
    takes_prompt_lists: bool = True
    """False: that path takes one prompt per request."""
    embeddings: EmbeddingRow | None = EmbeddingRow()
    """None: it has no embeddings."""
    error_reader: ErrorReader | None = None
    """What it has beside the errors of the wire, for a cloud whose front has its own."""

    sends_finish: bool = True
    """False: it never sends a finish reason; only `[DONE]` ends the answer."""
    names_stop_sequence: bool = False
    """True: `stop_reason` beside a finish reason is the stop sequence that ended the answer."""
    abort_stops_billing: bool = False
    """Closing the connection stops the work and the billing. False: it does not, or that is not known."""
    takes_stream_options: bool = True
    """False: it refuses `stream_options`, and reports usage without being asked, if at all."""

    takes_developer_role: bool = False
    """False: `developer` messages are sent as `system`."""
    system_first: bool = False
    """True: its chat templates refuse a system message that is not the first; other APIs allow one."""
    takes_names: bool = True
    """False: `name` is refused on messages."""
    limit_member: str | None = None
    """The only name under which it accepts the output limit; None: it accepts either."""
    added_limit: str = "max_tokens"
    """If either name is accepted, the name for a limit that the gateway adds because the caller set none; see
    `limit_added_for`."""
    renames: tuple[tuple[str, str], ...] = ()
    """Members that have another name: the gateway's, the vendor's."""
    refuses: frozenset[str] = frozenset()
    """Members that the vendor answers with an error, or is documented to ignore: left out and named.

    Only `n` is not left out: if several choices are requested, the vendor is not called at all.
    """
    model_refuses: tuple[tuple[str, frozenset[str]], ...] = ()
    """The same for some of its models: a pattern for the start of their names, and the members."""
    message_members: frozenset[str] | None = None
    """All members of a message that it accepts, if it refuses others; None: it does not refuse any."""
    call_id_length: int | None = None
    """The ids of tool calls must have this many letters and digits; None: any id is accepted."""
    max_temperature: float = 2.0
    takes_text_only: bool = False
    """True: message parts other than text are refused, because the request would be a different one without them."""
    formats: frozenset[str] = frozenset({"json_object", "json_schema"})
    """The types of `response_format` that it accepts, besides `text`."""
    effort: Effort = Effort.WORD
    efforts: frozenset[str] | None = None
    """The values of `reasoning_effort` that it accepts; None: not known, so any value is sent."""
    takes_cache_control: bool = False
    """False: `cache_control` is refused on messages, parts and tools."""
    reasoning_text: str = ""
    """The member of an assistant message in which it accepts earlier reasoning; empty: in none."""
    takes_reasoning_details: bool = False

    def refused_by(self, model: str) -> frozenset[str]:
        """The members that this model does not accept."""
        refused = self.refuses
        for pattern, members in self.model_refuses:
            if re.match(pattern, model):
                refused |= members
        return refused

    def limit_added_for(self, model: str) -> str:
        """OpenAI's reasoning models refuse the older name, at any host."""
        return "max_completion_tokens" if _REASONS.search(model) else self.added_limit
