"""Entries whose text any database takes: plain, and short where it is indexed.

Who makes an entry sees to that; this is for a batch that was refused for all that, read from a
journal of another version perhaps. It changes nothing in an entry that is in order.
"""

from msgspec import structs

from streamweir.store.journal.entries import Entry, Progress, Refused, Row, Settle, plain

LONGEST = 256
"""Characters, where a text is part of an index: PostgreSQL takes no more than 2.7 kB for an entry of one."""
LONGEST_WORD = 40
"""As long as none of our own words is: what is longer came from elsewhere."""
INDEXED = {
    "completion_id": LONGEST,
    "model": LONGEST,
    "target": LONGEST,
    "dialect": LONGEST_WORD,
    "verdict": LONGEST_WORD,
    "error": LONGEST_WORD,
}


def with_plain_text(entry: Entry) -> Entry:
    if isinstance(entry, Settle):
        account = plain(entry.account) if entry.account is not None else None
        return structs.replace(entry, row=_row(entry.row), account=account)
    if isinstance(entry, Refused):
        return structs.replace(entry, row=_row(entry.row))
    if isinstance(entry, Progress):
        rows = [(plain(id), plain(target)[:LONGEST], tokens) for id, target, tokens in entry.rows]
        return structs.replace(entry, rows=rows)
    return structs.replace(entry, **_texts(entry))


def _row(row: Row) -> Row:
    return structs.replace(row, **_texts(row))


def _texts(entry: Entry | Row) -> dict[str, str]:
    texts = {name: value for name, value in structs.asdict(entry).items() if isinstance(value, str)}
    return {name: plain(text[: INDEXED.get(name)]) for name, text in texts.items()}
