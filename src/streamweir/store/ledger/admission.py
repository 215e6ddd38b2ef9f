"""Where the database itself decides about money: holds and extensions that must fit an account.

Several are decided at once, in their order, under the locks of their workspaces: so what is decided
is exact whoever else decides at the same time. What fits is written, and nothing else. Asked again
about the same, because an answer was lost, it says what it said before. The limit of a workspace is
what it was granted, as the locked account tells it; that of a key comes with the draw.
"""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, select

from streamweir.policy.budget import workspace_account
from streamweir.policy.claim import UNKNOWN, BudgetCharge
from streamweir.store.db.tables import idempotency
from streamweir.store.journal.entries import Extend, Hold
from streamweir.store.ledger import accounts as account
from streamweir.store.ledger.accounts import Sums
from streamweir.store.ledger.posting import PROMISE_MS, apply
from streamweir.store.ledger.request_state import find_open, find_posted

_Promise = tuple[str, bytes, bool, int]
"""Of an Idempotency-Key: the request, its body's digest, whether it is over, until when it is remembered."""


def arbitrate(conn: Connection, holds: Sequence[tuple[Hold, Sequence[BudgetCharge]]]) -> list[str | None]:
    """Of each the error's code; None: it is held."""
    owners = {draw.account: hold.workspace_id for hold, draws in holds for draw in draws if _is_of_key(draw.account)}
    owners |= {hold.account: hold.workspace_id for hold, _ in holds if hold.account is not None}
    sums = account.lock(conn, {hold.workspace_id for hold, _ in holds}, owners)
    decided = set(find_posted(conn, [hold.request_id for hold, _ in holds]))
    promises = _find_promises(conn, [hold for hold, _ in holds])
    more: dict[str, int] = dict.fromkeys(sums, 0)
    accepted: list[Hold] = []
    codes: list[str | None] = []
    for hold, draws in holds:
        if hold.request_id in decided:
            codes.append(None)
            continue
        code = _objection(hold, promises) or _refusal(hold.amount, draws, sums, more)
        codes.append(code)
        if code is not None:
            continue
        decided.add(hold.request_id)
        accepted.append(hold)
        more[workspace_account(hold.workspace_id)] += hold.amount
        if hold.account is not None:
            more[hold.account] += hold.amount
        if hold.idempotency is not None:
            promise = (hold.request_id, hold.body_digest or b"", False, hold.at_ms + PROMISE_MS)
            promises[hold.key_id, hold.idempotency] = promise
    apply(conn, accepted)
    return codes


def extend_if_fits(conn: Connection, entry: Extend, draws: Sequence[BudgetCharge]) -> str | None:
    """The error's code; None: it is held. For a request that is not open nothing more can be held."""
    found = find_open(conn, [entry.request_id]).get(entry.request_id)
    if found is None:
        return UNKNOWN
    owners = {draw.account: found.workspace_id for draw in draws if _is_of_key(draw.account)}
    sums = account.lock(conn, [found.workspace_id], owners)
    posted = find_posted(conn, [entry.request_id])[entry.request_id]
    if f"extend.{entry.number}" in posted.kinds:
        return None
    if posted.ending is not None:
        return UNKNOWN
    code = _refusal(entry.amount, draws, sums, {})
    if code is None:
        apply(conn, [entry])
    return code


def _refusal(
    amount: int, draws: Iterable[BudgetCharge], sums: Mapping[str, Sums], more: Mapping[str, int]
) -> str | None:
    for draw in draws:
        account = sums[draw.account]
        limit = draw.limit if _is_of_key(draw.account) else account.granted
        if account.used + more.get(draw.account, 0) + amount > limit:
            return draw.code
    return None


def _objection(hold: Hold, promises: Mapping[tuple[str, bytes], _Promise]) -> str | None:
    if hold.idempotency is None:
        return None
    promise = promises.get((hold.key_id, hold.idempotency))
    if promise is None:
        return None
    request_id, body_digest, is_over, until_ms = promise
    if until_ms <= hold.at_ms or request_id == hold.request_id:
        return None
    if body_digest != (hold.body_digest or b""):
        return "idempotency_key_reused"
    return "idempotency_completed" if is_over else "idempotency_in_progress"


def _find_promises(conn: Connection, holds: Sequence[Hold]) -> dict[tuple[str, bytes], _Promise]:
    digests = [hold.idempotency for hold in holds if hold.idempotency is not None]
    if not digests:
        return {}
    keys = {hold.key_id for hold in holds if hold.idempotency is not None}
    columns = idempotency.c
    statement = select(
        columns.key_id, columns.digest, columns.request_id, columns.body_digest, columns.is_over, columns.until_ms
    ).where(columns.key_id.in_(sorted(keys)), columns.digest.in_(digests))
    return {
        (key_id, digest): (request_id, body_digest, is_over, until_ms)
        for key_id, digest, request_id, body_digest, is_over, until_ms in conn.execute(statement)
    }


def _is_of_key(account_id: str) -> bool:
    return not account_id.startswith("ws:")
