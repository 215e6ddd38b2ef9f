"""The request log: its columns, each declared once.

A field of `Row` is a column: its type, whether it may be NULL, and, in its `LogColumn`, its meaning and where it is
shown. Everything else is derived from this: the table (`store.db.tables`), the row that is read
(`store.requests.requests.RequestRow`), the API's members with their schema and the export's columns
(`server.control.api.view`), the table in docs/api.md and the console's types (`scripts/generate.py`). A new column is a
field here, its value in `server.accounting.request_row`, and a migration. The order is that of the table.

Money is in integer nano-dollars, times in Unix milliseconds, JSON is text that only this program reads.
"""

from typing import Annotated, Any, Literal, get_args, get_type_hints

from msgspec import UNSET, Struct, UnsetType

MAX_NAME_LENGTH = 256
"""The maximum length of names and ids that callers and providers choose. PostgreSQL accepts at most 2.7 kB for an entry
of an index."""
MAX_WORD_LENGTH = 40
"""Longer than every value of the gateway's own: a longer one came from elsewhere."""


class AttemptView(Struct, kw_only=True):
    """One target that was tried, as it is stored and shown. Unknown values are left out; older rows have fewer."""

    target: str
    credential: str | UnsetType = UNSET
    """The name of the provider's credential, if it has several."""
    error: str | None
    start_s: float | UnsetType = UNSET
    """Since the arrival of the request."""
    duration_s: float
    resends: int
    status: int | UnsetType = UNSET
    """The provider's HTTP status."""
    provider_code: str | UnsetType = UNSET
    """As the provider names its error."""
    provider_type: str | UnsetType = UNSET
    provider_param: str | UnsetType = UNSET
    provider_message: str | UnsetType = UNSET
    """Scrubbed. Not of an error that is about the request itself, unless the key stores content."""
    advice: str | UnsetType = UNSET
    """What to do about the failure, where that is known: for clouds."""
    provider_request_id: str | UnsetType = UNSET
    address: str | UnsetType = UNSET
    """`ip:port` of the connection: of the proxy, if there is one."""
    via_proxy: bool | UnsetType = UNSET
    reused: bool | UnsetType = UNSET
    """The connection was kept from an earlier request, so that it was not opened for this one."""
    dns_s: float | UnsetType = UNSET
    connect_s: float | UnsetType = UNSET
    """TCP, and the tunnel of a proxy."""
    tls_s: float | UnsetType = UNSET
    first_byte_s: float | UnsetType = UNSET
    """Since the request was sent."""


class StripView(Struct, frozen=True, kw_only=True):
    """The timeline of a stream, as it is stored and shown."""

    start_ms: int
    """Since the arrival of the request."""
    slot_ms: int
    counts: list[int]
    """The counts of the slots from there on, up to the last that has a piece."""


class ParametersView(Struct, omit_defaults=True, kw_only=True):
    """The parameters of a request as it was sent, as they are stored and shown: never a text of it. What was not sent
    is left out. Names are sanitized and bounded."""

    messages: int | UnsetType = UNSET
    """How many; of embeddings and completions: inputs."""
    temperature: float | UnsetType = UNSET
    top_p: float | UnsetType = UNSET
    top_k: int | UnsetType = UNSET
    max_tokens: int | UnsetType = UNSET
    """Of the answer, whatever the API calls it."""
    n: int | UnsetType = UNSET
    """Answers, if more than one."""
    seed: int | UnsetType = UNSET
    stop: int | UnsetType = UNSET
    """How many sequences."""
    presence_penalty: float | UnsetType = UNSET
    frequency_penalty: float | UnsetType = UNSET
    logit_bias: int | UnsetType = UNSET
    """How many tokens."""
    logprobs: bool | UnsetType = UNSET
    top_logprobs: int | UnsetType = UNSET
    effort: str | UnsetType = UNSET
    """Of the reasoning."""
    reasoning_tokens: int | UnsetType = UNSET
    verbosity: str | UnsetType = UNSET
    response_format: str | UnsetType = UNSET
    modalities: list[str] | UnsetType = UNSET
    dimensions: int | UnsetType = UNSET
    """Of embeddings."""
    tools: list[str] | UnsetType = UNSET
    """Names, at most 32."""
    tool_count: int | UnsetType = UNSET
    """If there are more."""
    tool_choice: str | UnsetType = UNSET
    """A mode, or the name of a tool."""
    parallel_tool_calls: bool | UnsetType = UNSET


class RefusalView(Struct, omit_defaults=True, kw_only=True):
    """Why the gateway refused a request, as it is stored and shown."""

    message: str
    """As the caller got it. A quotation of more than 40 characters is left out."""
    param: str | UnsetType = UNSET
    """The member that it is about."""
    budget: str | UnsetType = UNSET
    """What has too little money: `key`, `workspace` or the name of a rule of `[[limits]]`."""


class ReaderGapView(Struct, frozen=True, kw_only=True):
    """A time in which nobody read a resumable stream, as it is stored and shown."""

    from_ms: int
    """Since the arrival of the request."""
    until_ms: int | None
    """Null: nobody came back."""


class LogColumn(Struct, frozen=True, kw_only=True):
    """The properties of a column besides its type."""

    about: str
    shown: Literal["list", "detail", "nowhere"] = "list"
    """By the API. `list`: in pages, in exports and for a single request; `detail`: only for a single request."""
    member: str = ""
    """Its name in the API, if that differs."""
    log: str = ""
    """Its name in the log line. Empty: it is not in it."""
    filters: tuple[str, ...] = ()
    """The API's filters for it. A filter with the column's own name tests for equality."""
    api: Any = None
    """The type in the API, if it is not the column's."""
    json: Literal["list", "dict", "text"] | None = None
    """The column is JSON, with a list or an object; `text`: the reader of the row decodes it."""
    is_money: bool = False
    is_for_operator: bool = False
    """No one else is shown it, or may filter by it: see `server.control.api.view`."""
    is_small: bool = False
    """An integer of 32 bits is enough."""
    is_unique: bool = False
    max_length: int | None = None
    """In characters, for a column that is in an index and is not one of the gateway's own ids."""


class Row(Struct, kw_only=True, omit_defaults=True):
    """The row of a finished request, as it is written."""

    request_id: Annotated[
        str, LogColumn(about="The answer's `x-request-id`.", log="id", filters=("id",), is_unique=True)
    ]
    completion_id: Annotated[
        str | None,
        LogColumn(
            about="The id in the chunks of the answer.",
            log="completion_id",
            filters=("id",),
            max_length=MAX_NAME_LENGTH,
        ),
    ] = None
    at_ms: Annotated[int, LogColumn(about="When it arrived.", filters=("since_ms", "until_ms"))]
    workspace_id: Annotated[
        str | None, LogColumn(about="The workspace of its key.", member="workspace", filters=("workspace",))
    ] = None
    key_id: Annotated[str | None, LogColumn(about="The key that it was sent with.", filters=("key",))] = None
    key_name: Annotated[str | None, LogColumn(about="The name of that key.", log="key")] = None
    dialect: Annotated[
        str | None,
        LogColumn(
            about="The API that was spoken: a dialect of chat completions, or `messages`, `responses`, `embeddings`"
            " or `completions`.",
            log="dialect",
            filters=("dialect",),
            max_length=MAX_WORD_LENGTH,
        ),
    ] = None
    model: Annotated[
        str | None,
        LogColumn(about="The model that was asked for.", log="model", filters=("model",), max_length=MAX_NAME_LENGTH),
    ] = None
    target: Annotated[
        str | None,
        LogColumn(
            about="The target that was tried last: `{provider}/{model}`.",
            log="target",
            filters=("target", "provider"),
            max_length=MAX_NAME_LENGTH,
        ),
    ] = None
    attempts: Annotated[
        str, LogColumn(about="Every target that was tried.", log="attempts", json="list", api=list[AttemptView])
    ] = "[]"
    stream: Annotated[bool, LogColumn(about="Whether it was streamed.", log="stream", filters=("stream",))] = False
    status: Annotated[
        int,
        LogColumn(
            about="The HTTP status. 499: the caller left before there was one; 0: the process that served it died.",
            log="status",
            filters=("status_class",),
            is_small=True,
        ),
    ]
    verdict: Annotated[
        str,
        LogColumn(
            about="How it ended, in one word.",
            log="verdict",
            filters=("verdict", "refused"),
            max_length=MAX_WORD_LENGTH,
        ),
    ]
    error: Annotated[
        str | None,
        LogColumn(about="The code of its error.", log="error", filters=("error", "failed"), max_length=MAX_WORD_LENGTH),
    ] = None
    finish: Annotated[str | None, LogColumn(about="Why the model stopped.", log="finish")] = None
    prompt_tokens: Annotated[int | None, LogColumn(about="Tokens of the prompt.", log="usage")] = None
    completion_tokens: Annotated[int | None, LogColumn(about="Tokens of the answer.", log="usage")] = None
    usage: Annotated[
        str | None,
        LogColumn(about="The token counts that were reported.", log="usage", json="dict", api=dict[str, int] | None),
    ] = None
    usage_source: Annotated[
        str | None,
        LogColumn(about="Who counted the tokens: `provider`, `tokenizer` or `estimate`.", log="usage_source"),
    ] = None
    flags: Annotated[
        str | None, LogColumn(about="What was unusual: `usage_anomaly`, ...", json="list", api=list[str])
    ] = None
    held: Annotated[int | None, LogColumn(about="The amount that was held for it.", is_money=True)] = None
    cost: Annotated[
        int | None,
        LogColumn(
            about="What the provider asks for it. Null: that is not known, or nothing was booked.",
            filters=("min_cost_usd", "max_cost_usd"),
            is_money=True,
            is_for_operator=True,
        ),
    ] = None
    price_version: Annotated[str | None, LogColumn(about="The version of the price list.")] = None
    ttft_ms: Annotated[
        int | None, LogColumn(about="From its arrival to the first token.", log="ttft_s", is_small=True)
    ] = None
    duration_ms: Annotated[int, LogColumn(about="From its arrival to its end.", log="duration_s", is_small=True)]
    chunks: Annotated[
        int | None, LogColumn(about="The number of pieces that the answer was sent in.", is_small=True)
    ] = None
    gap_p50_ms: Annotated[
        int | None, LogColumn(about="The time between two pieces of the answer: the median.", is_small=True)
    ] = None
    gap_p99_ms: Annotated[
        int | None, LogColumn(about="The time between two pieces of the answer: the 99th percentile.", is_small=True)
    ] = None
    gap_max_ms: Annotated[
        int | None, LogColumn(about="The longest time between two pieces of the answer.", is_small=True)
    ] = None
    bytes_in: Annotated[int | None, LogColumn(about="Bytes of the request's body.")] = None
    bytes_out: Annotated[int | None, LogColumn(about="Bytes of the answer's body.", log="bytes_out")] = None
    peer: Annotated[str | None, LogColumn(about="The caller's address.", log="peer")] = None
    client: Annotated[str | None, LogColumn(about="The caller's `user-agent`.")] = None
    client_id: Annotated[str | None, LogColumn(about="The caller's own `x-request-id`.", log="client_id")] = None
    dropped: Annotated[
        str | None,
        LogColumn(about="Parameters that the provider does not take.", log="dropped", json="list", api=list[str]),
    ] = None
    instance: Annotated[
        str,
        LogColumn(
            about="The node that answered: `server.node`. Null: it is older than what is kept of nodes.",
            member="node",
            log="node",
            api=str | None,
        ),
    ]
    has_content: Annotated[bool, LogColumn(about="Whether its prompt and answer are stored.")] = False
    service_tier: Annotated[
        str | None,
        LogColumn(about="The service tier that the provider reported, else the one asked for.", shown="detail"),
    ] = None
    rates: Annotated[
        str | None,
        LogColumn(about="What its price was computed by: `policy.pricing.prices.Rates`.", shown="nowhere", json="text"),
    ] = None
    admitted_ms: Annotated[
        int | None,
        LogColumn(about="From its arrival until its amount was held.", shown="detail", is_small=True),
    ] = None
    settled_ms: Annotated[
        int | None,
        LogColumn(about="From its arrival until its price was booked.", shown="detail", is_small=True),
    ] = None
    strip: Annotated[
        str | None,
        LogColumn(
            about="Of a stream: when the pieces of its answer went out.",
            shown="detail",
            json="dict",
            api=StripView | None,
        ),
    ] = None
    price: Annotated[
        int | None,
        LogColumn(
            about="What it is sold for, and charged. Null: the model has no price, or nothing was booked.",
            filters=("min_price_usd", "max_price_usd"),
            is_money=True,
        ),
    ] = None
    cost_rates: Annotated[
        str | None,
        LogColumn(
            about="What its cost was computed by, if not by `rates`: `policy.pricing.prices.Rates`.",
            shown="nowhere",
            json="text",
        ),
    ] = None
    charge_rule: Annotated[
        str | None,
        LogColumn(
            about="Of a request that went wrong: the rule by which it was charged.",
            max_length=MAX_WORD_LENGTH,
            is_for_operator=True,  # by the rule `cost` the price tells the cost
        ),
    ] = None
    end_user: Annotated[
        str | None,
        LogColumn(
            about="The caller's user that it was made for, as the caller names it, or a digest (`[store] end_user`).",
            filters=("end_user",),
            max_length=MAX_NAME_LENGTH,
        ),
    ] = None
    session: Annotated[
        str | None,
        LogColumn(
            about="The session that it belongs to, as the caller names it.",
            log="session",
            filters=("session",),
            max_length=MAX_NAME_LENGTH,
        ),
    ] = None
    tags: Annotated[
        str | None,
        LogColumn(about="The caller's tags: `name=value`.", log="tags", filters=("tag",), json="list", api=list[str]),
    ] = None
    parameters: Annotated[
        str | None,
        LogColumn(
            about="The parameters that were sent: never a text. Null: the body could not be read, or the row is older.",
            shown="detail",
            json="dict",
            api=ParametersView | None,
        ),
    ] = None
    refusal: Annotated[
        str | None,
        LogColumn(
            about="Why the gateway refused it. Null: a provider was asked, or the row is older.",
            shown="detail",
            json="dict",
            api=RefusalView | None,
        ),
    ] = None
    resumed: Annotated[
        int | None,
        LogColumn(
            about="Of a resumable stream: how often a reader came back, or came in addition, while it ran.",
            is_small=True,
        ),
    ] = None
    reader_gaps: Annotated[
        str | None,
        LogColumn(
            about="Of a resumable stream: when nobody read it. The first 19 times, and the last if nobody came back.",
            shown="detail",
            json="list",
            api=list[ReaderGapView],
        ),
    ] = None
    reader_gap_count: Annotated[
        int | None,
        LogColumn(about="Of a resumable stream: how often nobody read it.", shown="detail", is_small=True),
    ] = None


class DeclaredColumn(Struct, frozen=True, kw_only=True):
    """A field of `Row`, parsed."""

    name: str
    type: type
    """str, int or bool."""
    is_nullable: bool
    about: LogColumn

    @property
    def member(self) -> str:
        """Its name in the API."""
        return self.about.member or (f"{self.name}_usd" if self.about.is_money else self.name)

    @property
    def member_type(self) -> Any:
        """Its type in the API: dollars are exact, so they are text."""
        if self.about.api is not None:
            return self.about.api
        plain = str if self.about.is_money else self.type
        return plain | None if self.is_nullable else plain


def _columns() -> tuple[DeclaredColumn, ...]:
    found = []
    for name, hint in get_type_hints(Row, include_extras=True).items():
        type_hint, about = get_args(hint)
        kinds = get_args(type_hint) or (type_hint,)
        found.append(DeclaredColumn(name=name, type=kinds[0], is_nullable=type(None) in kinds, about=about))
    return tuple(found)


COLUMNS = _columns()
