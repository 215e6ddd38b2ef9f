"""The money: what the rest of the program may do with it, in one place.

Every function works inside the transaction of the connection that it is given, on SQLite and on
PostgreSQL alike, and takes the locks that it needs (`store.account`). The laws, after every commit:
a request has at most one terminal row and one settlement; the balance of a workspace is the sum of
its ledger rows; nothing is charged without a hold; what is held is the sum of what is open. How
entries become rows is `store.posting`'s; what one may and may not is decided in `store.admission`.
"""

from streamweir.store.account import Sums, balance_of, credit, forget_accounts, used_of
from streamweir.store.admission import arbitrate, extend_if_fits
from streamweir.store.instance import beat, dead_instances, retire
from streamweir.store.live import OpenRequest, cancel, cancelled, open_of
from streamweir.store.orphan import settle_orphans
from streamweir.store.posting import Applied, apply, lock_for

__all__ = [
    "Applied",
    "OpenRequest",
    "Sums",
    "apply",
    "arbitrate",
    "balance_of",
    "beat",
    "cancel",
    "cancelled",
    "credit",
    "dead_instances",
    "extend_if_fits",
    "forget_accounts",
    "lock_for",
    "open_of",
    "retire",
    "settle_orphans",
    "used_of",
]
