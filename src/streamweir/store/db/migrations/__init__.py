"""The schema's revisions, oldest first. Alembic runs them; nothing imports it unless one of them must run.

`store.db.schema` reads the two constants; a test holds them against the files in `versions/`.
"""

REVISIONS = ("0001", "0002")
HEAD = REVISIONS[-1]
