"""Which requests a person may see: those of its keys, since they have been its own.

A key that was given to a person later may have been used by others before: none of that is shown.
"""

from sqlalchemy import ColumnElement, exists, or_

from streamweir.store.db.tables import keys
from streamweir.store.journal.entries import plain


def of_person(person_id: str, key_id: ColumnElement[str], at_ms: ColumnElement[int]) -> ColumnElement[bool]:
    """`key_id` and `at_ms`: columns of the row that is asked about, its key and when it began."""
    since = keys.c.person_since_ms
    is_own = (keys.c.id == key_id, keys.c.person_id == plain(person_id))
    return exists().where(*is_own, or_(since.is_(None), since <= at_ms))
