"""The ledger: everything that changes money.

Every function works inside the transaction of its connection, on SQLite and on PostgreSQL, and takes the locks that it
needs (`store.ledger.accounts`). After every commit these rules hold: a request has at most one row in the log and one
settlement; the balance of a workspace is the sum of its ledger rows; nothing is charged without a reservation; the held
amount is the sum of the open reservations. `store.ledger.posting` turns entries into rows, `store.ledger.admissions`
decides what is allowed.
"""
