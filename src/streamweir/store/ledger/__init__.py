"""The money: what the rest of the program may do with it, in one place.

Every function works inside the transaction of the connection that it is given, on SQLite and on
PostgreSQL alike, and takes the locks that it needs (`store.ledger.accounts`). The rules that hold after every commit:
a request has at most one terminal row and one settlement; the balance of a workspace is the sum of
its ledger rows; nothing is charged without a hold; what is held is the sum of what is open. How
entries become rows is `store.ledger.posting`'s; what one may and may not is decided in `store.ledger.admissions`.
"""
