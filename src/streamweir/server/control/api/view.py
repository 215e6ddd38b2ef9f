"""The API's views of the store's rows: amounts as exact dollars in text, times as Unix milliseconds.

Amounts are text, because most readers of JSON parse a number as a float. Only the members declared here are shown: no
digest, no address of a provider. What providers ask for a request, and the margin, is shown to the operator alone
(`Actor.sees_cost`): for everyone else these members are left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from msgspec import UNSET, DecodeError, Meta, Struct, UnsetType, defstruct

from streamweir.core.usage import Usage
from streamweir.policy.limits.budget import dollars_of
from streamweir.policy.limits.key_limits import KeyLimits, with_limits
from streamweir.policy.pricing.prices import Quote, cost_of, decode_quote, price_of
from streamweir.policy.routing.latency import quantile_ms
from streamweir.store.db.request_log import COLUMNS
from streamweir.store.keys.audit import AuditRow
from streamweir.store.keys.credit import Balance, LedgerKind, LedgerRow, margin_of
from streamweir.store.keys.keys import KeyRecord
from streamweir.store.ledger.accounts import Sums
from streamweir.store.requests.key_use import KeyUse
from streamweir.store.requests.live import OpenRequest
from streamweir.store.requests.requests import RequestRow
from streamweir.store.requests.usage import UsageSum

V = TypeVar("V", bound=Struct)


_quote_of = lru_cache(maxsize=256)(decode_quote)
"""Viewers of the live feed need the same quotes every second."""


def in_text(dollars: Decimal) -> str:
    """Without trailing zeros after the decimal point."""
    return format(dollars, "f").rstrip("0").rstrip(".")


def usd(nano: int) -> str:
    return in_text(dollars_of(nano))


def usd_or_none(nano: int | None) -> str | None:
    return None if nano is None else usd(nano)


def shown(view: type[V], row: Struct, **more: Any) -> V:
    """`view` with the members that it shares with `row`, and `more`."""
    same = {name: getattr(row, name) for name in view.__struct_fields__ if name not in more}
    return view(**same, **more)


class _KeyNames(Struct, frozen=True, kw_only=True):
    id: str
    workspace: str
    name: str
    origin: str
    """`store`, or `file`: then it can be changed only in the operator's file."""
    last4: str
    scopes: tuple[str, ...]
    models: tuple[str, ...] | None
    dialect: str | None


if TYPE_CHECKING:

    class _NamesAndLimits(_KeyNames, KeyLimits, frozen=True): ...

else:
    _NamesAndLimits = with_limits(_KeyNames, is_shown=True)


class KeyView(_NamesAndLimits, frozen=True, kw_only=True):
    budget_usd: str | None
    budget_period: str | None
    spent_usd: str | None
    """The spent part of the budget in the current period. None: it has no budget."""
    held_usd: str | None
    log_content: bool
    show_routing: bool
    show_cost: bool
    resumable: bool
    price_group: str | None
    """By what its requests are sold. None: as its workspace says."""
    person: str | None
    """The id of the person whose key it is."""
    expires_ms: int | None
    created_ms: int
    revoked_ms: int | None
    old_until_ms: int | None
    """Until then the secret before the last rotation is valid too."""
    used_ms: int | None
    """When it was used last, as far as is known; of old requests only the hour."""
    recent_requests: int
    """Requests of the last 30 days (UTC) that have ended."""
    recent_price_usd: str
    """What these were sold for."""


class NewKeyView(KeyView, frozen=True, kw_only=True):
    secret: str
    """Shown only once."""


def view_key(key: KeyRecord, sums: Sums | None, use: KeyUse) -> KeyView:
    """`sums`: of its budget, if it has one."""
    return shown(KeyView, key, **_of_key(key, sums, use))


def view_new_key(key: KeyRecord, sums: Sums | None, use: KeyUse, secret: str) -> NewKeyView:
    return shown(NewKeyView, key, **_of_key(key, sums, use), secret=secret)


def _of_key(key: KeyRecord, sums: Sums | None, use: KeyUse) -> dict[str, str | int | None]:
    return {
        "used_ms": use.used_ms,
        "recent_requests": use.requests,
        "recent_price_usd": usd(use.price),
        "workspace": key.workspace_id,
        "person": key.person_id,
        "budget_usd": usd_or_none(key.budget_nano),
        "spent_usd": usd(sums.spent) if sums is not None else None,
        "held_usd": usd(sums.held) if sums is not None else None,
    }


class BalanceView(Struct, kw_only=True):
    workspace: str
    name: str
    prepaid: bool
    granted_usd: str
    spent_usd: str
    held_usd: str
    balance_usd: str


def view_balance(balance: Balance) -> BalanceView:
    return BalanceView(
        workspace=balance.workspace.id,
        name=balance.workspace.name,
        prepaid=balance.workspace.prepaid,
        granted_usd=usd(balance.granted_nano),
        spent_usd=usd(balance.spent_nano),
        held_usd=usd(balance.held_nano),
        balance_usd=usd(balance.balance_nano),
    )


class LedgerView(Struct, kw_only=True):
    seq: int
    at_ms: int
    kind: LedgerKind
    workspace: str
    key_id: str | None
    key_name: str | None
    """The name that the key has now."""
    request_id: str | None
    amount_usd: str
    """Of a charge: the price, negative. Of a reservation and its extension: what they hold, negative."""
    released_usd: str | None
    """Of a charge: what was reserved for it. Amounts and releases of all rows add up to the balance."""
    price_usd: str | None
    """Of a charge: what the request is sold for. Null: the model has no price."""
    cost_usd: str | None | UnsetType = UNSET
    """Of a charge, for the operator: what the provider asks for it. Null: that is not known."""
    margin_usd: str | None | UnsetType = UNSET
    """For the operator: the price without the cost."""
    note: str | None


def view_ledger(row: LedgerRow, names: Mapping[str, str], sees_cost: bool) -> LedgerView:
    """`names`: those of keys, by id."""
    return shown(
        LedgerView,
        row,
        workspace=row.workspace_id,
        key_name=names.get(row.key_id) if row.key_id is not None else None,
        amount_usd=usd(row.amount_nano),
        released_usd=usd_or_none(row.released_nano),
        price_usd=usd_or_none(row.price_nano),
        cost_usd=usd_or_none(row.cost_nano) if sees_cost else UNSET,
        margin_usd=usd_or_none(row.margin_nano) if sees_cost else UNSET,
    )


MARGIN = "margin_usd"
ABOUT_MARGIN = "The price without the cost. Null: one of them is not known."


def request_members(*shown_in: str) -> list[tuple[str, Any] | tuple[str, Any, UnsetType]]:
    """The columns of the request log that are shown in these places, with their names and types. Those that are for the
    operator can be left out. The margin follows the cost."""
    found: list[tuple[str, Any] | tuple[str, Any, UnsetType]] = []
    for column in COLUMNS:
        if column.about.shown not in shown_in:
            continue
        about = Meta(description=column.about.about)
        if not column.about.is_for_operator:
            found.append((column.member, Annotated[column.member_type, about]))
            continue
        found.append((column.member, Annotated[column.member_type | UnsetType, about], UNSET))
        if column.name == "cost":
            found.append((MARGIN, Annotated[str | None | UnsetType, Meta(description=ABOUT_MARGIN)], UNSET))
    return found


if TYPE_CHECKING:

    class RequestView(Struct):
        """The columns of `store.db.request_log` for a list. It is made for JSON: read a `RequestRow` instead."""

else:
    RequestView = defstruct("RequestView", request_members("list"), kw_only=True)


def view_request(row: RequestRow, sees_cost: bool) -> RequestView:
    return RequestView(**values_of(row, members_shown(RequestView.__struct_fields__, sees_cost)))


def members_shown(names: Iterable[str], sees_cost: bool) -> list[str]:
    """Those of a request that such an actor is shown."""
    return [name for name in names if sees_cost or name not in _FOR_OPERATOR]


def values_of(row: RequestRow, names: Iterable[str]) -> dict[str, Any]:
    """The values of these members."""
    found = {}
    for name in names:
        if name == MARGIN:
            found[name] = usd_or_none(margin_of(row.price, row.cost))
            continue
        attribute, is_money = _SOURCES[name]
        value = getattr(row, attribute)
        found[name] = usd_or_none(value) if is_money else value
    return found


_SOURCES = {
    column.member: (
        column.member if column.member in RequestRow.__struct_fields__ else column.name,
        column.about.is_money,
    )
    for column in COLUMNS
}
"""For each member: its column in a row, and whether it is an amount."""
_FOR_OPERATOR = frozenset([MARGIN, *(column.member for column in COLUMNS if column.about.is_for_operator)])


class LiveView(Struct, kw_only=True):
    request_id: str
    at_ms: int
    workspace: str
    key_id: str
    key_name: str
    dialect: str
    model: str
    target: str | None
    stream: bool
    held_usd: str
    prompt_tokens: int
    output_tokens: int
    price_usd: str | None
    """The price so far, for these tokens. None: no target was called yet, or it has no price."""
    cost_usd: str | None | UnsetType = UNSET
    """For the operator: what the provider asks for them. None: that is not known."""
    margin_usd: str | None | UnsetType = UNSET
    """For the operator: the price without the cost."""
    progress_ms: int | None
    first_ms: int | None
    """When the first token of a stream was sent."""
    last_ms: int | None
    """When the last piece was sent; updated once a second."""
    is_being_stopped: bool
    end_user: str | None
    """As the caller names it, or a digest; like the session."""
    session: str | None
    readers: int | None
    """Of a resumable stream: how many callers read it now, at all nodes. Null: it is none."""
    reader_gap_count: int | None
    """Of a resumable stream: how often nobody read it so far."""
    away_since_ms: int | None
    """Of a resumable stream: since when nobody reads it. Null: somebody does."""
    node: str | None
    """The name of the node that serves it."""


def view_live(row: OpenRequest, sees_cost: bool) -> LiveView:
    price, cost = _price_and_cost_so_far(row)
    return shown(
        LiveView,
        row,
        workspace=row.workspace_id,
        held_usd=usd(row.held),
        price_usd=usd_or_none(price),
        cost_usd=usd_or_none(cost) if sees_cost else UNSET,
        margin_usd=usd_or_none(margin_of(price, cost)) if sees_cost else UNSET,
        is_being_stopped=row.cancel_ms is not None,
    )


def _price_and_cost_so_far(row: OpenRequest) -> tuple[int | None, int | None]:
    if row.target is None:
        return None, None
    try:
        quote: Quote = _quote_of(row.prices)
    except DecodeError:  # written by another version in another format
        return None, None
    usage, rates = Usage(input_uncached=row.prompt_tokens, output=row.output_tokens), quote.rates.get(row.target)
    return price_of(quote, row.target, usage), cost_of(usage, rates) if rates is not None else None


class UsageView(Struct, kw_only=True):
    requests: int
    errors: int
    prompt_tokens: int
    cached_tokens: int
    """The part of the prompt tokens that providers have read from their caches."""
    cache_read_share: float | None
    """The share of them, from 0 to 1. Null without prompt tokens."""
    completion_tokens: int
    reasoning_tokens: int
    price_usd: str
    """What it is sold for."""
    unpriced: int
    """Requests of models without a price; they are not in it."""
    cost_usd: str | UnsetType = UNSET
    """For the operator: what providers ask for it."""
    uncosted: int | UnsetType = UNSET
    """For the operator: requests whose cost is not known; it is not in `cost_usd`."""
    margin_usd: str | UnsetType = UNSET
    """For the operator: the price without the cost, of the requests whose price and cost are known."""
    ttft_p50_ms: int | None
    """The median time to the first token of streams. Computed from buckets: wrong by a factor of 1.5 at most."""
    ttft_p95_ms: int | None


def view_usage(found: UsageSum, sees_cost: bool) -> UsageView:
    """Member by member, for speed: one answer has thousands of them."""
    view = UsageView(
        requests=found.requests,
        errors=found.errors,
        prompt_tokens=found.prompt_tokens,
        cached_tokens=found.cached_tokens,
        cache_read_share=round(found.cached_tokens / found.prompt_tokens, 4) if found.prompt_tokens else None,
        completion_tokens=found.completion_tokens,
        reasoning_tokens=found.reasoning_tokens,
        price_usd=usd(found.price),
        unpriced=found.unpriced,
        ttft_p50_ms=quantile_ms(found.ttft, 0.5),
        ttft_p95_ms=quantile_ms(found.ttft, 0.95),
    )
    if sees_cost:
        view.cost_usd, view.uncosted = usd(found.cost), found.uncosted
        view.margin_usd = usd(found.margin)
    return view


class AuditView(Struct, kw_only=True):
    seq: int
    at_ms: int
    actor: str
    workspace: str | None
    action: str
    object: str
    object_name: str | None
    """The name that it has now, if it is a key, a workspace or a person."""
    actor_name: str | None
    """The name of the key, if one acted."""
    detail: dict[str, Any]
    names: dict[str, str]
    """Of what the detail has the ids of."""


_KEY_ACTOR = "key:"


def ids_in_audit(row: AuditRow) -> tuple[str, ...]:
    """The ids whose names a row is shown with."""
    return row.object, row.actor.removeprefix(_KEY_ACTOR), *_ids_in(row.detail)


def view_audit(row: AuditRow, names: Mapping[str, str]) -> AuditView:
    actor_name = names.get(row.actor.removeprefix(_KEY_ACTOR)) if row.actor.startswith(_KEY_ACTOR) else None
    return shown(
        AuditView,
        row,
        workspace=row.workspace_id,
        object_name=names.get(row.object),
        actor_name=actor_name,
        names={id: names[id] for id in _ids_in(row.detail) if id in names},
    )


def _ids_in(detail: Mapping[str, Any]) -> Iterator[str]:
    """Not of workspaces: the admin of one does not learn of others. A change has what was and what is."""
    for value in (detail.get("person_id"), detail.get("key_id")):
        values = value.values() if isinstance(value, dict) else (value,)
        yield from (each for each in values if isinstance(each, str))
