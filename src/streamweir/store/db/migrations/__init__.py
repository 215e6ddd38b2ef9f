"""The revisions of the schema, oldest first. They are run by Alembic, which is imported only if one of them must run.

`store.db.schema` reads the two constants; a test compares them with the files in `versions/`.
"""

REVISIONS = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0007",
    "0008",
    "0009",
    "0010",
    "0011",
    "0012",
    "0013",
    "0014",
    "0015",
    "0016",
)
HEAD = REVISIONS[-1]
