"""Makes the text of entries acceptable for every database: plain, and short in indexed columns.

Entries are created with such text. This is for a batch that was refused all the same, for example from a journal of
another version. It does not change an entry that is already correct.
"""

from msgspec import structs

from streamweir.store.db.request_log import COLUMNS, MAX_NAME_LENGTH, Row
from streamweir.store.journal.entries import Entry, Progress, Refused, Settle, plain

INDEXED = {column.name: column.about.max_length for column in COLUMNS if column.about.max_length is not None}


def with_plain_text(entry: Entry) -> Entry:
    if isinstance(entry, Settle):
        account = plain(entry.account) if entry.account is not None else None
        return structs.replace(entry, row=_row(entry.row), account=account, credential=plain(entry.credential))
    if isinstance(entry, Refused):
        return structs.replace(entry, row=_row(entry.row))
    if isinstance(entry, Progress):
        rows = [(plain(id), plain(target)[:MAX_NAME_LENGTH], tokens) for id, target, tokens in entry.rows]
        return structs.replace(entry, rows=rows)
    return structs.replace(entry, **_texts(entry))


def _row(row: Row) -> Row:
    return structs.replace(row, **_texts(row))


def _texts(entry: Entry | Row) -> dict[str, str]:
    texts = {name: value for name, value in structs.asdict(entry).items() if isinstance(value, str)}
    return {name: plain(text[: INDEXED.get(name)]) for name, text in texts.items()}
