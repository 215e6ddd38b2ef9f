"""The content of requests of keys with `log_content`: redacted, bounded, compressed, in a table of its own.

Content is redacted before it is packed. The key's setting is checked when the content is written, and content from
before the erasure of a key is never written after it, so content that waits in a queue cannot bypass either. Content is
read within a workspace; the caller records the access in the audit log. Packing and unpacking take time and need no
connection: they run outside of the event loop.
"""

import zlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, delete, select, update

from streamweir.policy.redact import Frame, Redactor
from streamweir.store.db.sql import upsert
from streamweir.store.db.tables import contents, counters, keys, requests
from streamweir.store.journal.entries import plain

MAX_BYTES = 1 << 20
"""The maximum of each body, before compression."""
_FRAME_BYTES = 16
"""The overhead of a frame besides its text."""
_LEVEL = 6
_read_frames = msgspec.json.Decoder(list[Frame]).decode


class Content(Struct, frozen=True, kw_only=True):
    request_id: str
    workspace_id: str
    key_id: str
    at_ms: int
    prompt: str
    """JSON: the request's body."""
    answer: str
    upstream_frames: Sequence[Frame]
    caller_frames: Sequence[Frame]
    is_cut: bool = False
    """Parts were left out."""

    @property
    def size(self) -> int:
        """The approximate size in memory."""
        frames = (*self.upstream_frames, *self.caller_frames)
        texts = (self.prompt, self.answer, *(text for _, text in frames))
        return 1000 + 150 * len(frames) + sum(len(text) if text.isascii() else 4 * len(text) for text in texts)


class PackedContent(Struct, frozen=True, kw_only=True):
    """The columns of `tables.contents`."""

    request_id: str
    workspace_id: str
    key_id: str
    at_ms: int
    prompt: bytes
    answer: bytes
    upstream_frames: bytes
    caller_frames: bytes
    is_cut: bool

    def unpack(self) -> Content:
        return Content(
            request_id=self.request_id,
            workspace_id=self.workspace_id,
            key_id=self.key_id,
            at_ms=self.at_ms,
            prompt=zlib.decompress(self.prompt).decode(),
            answer=zlib.decompress(self.answer).decode(),
            upstream_frames=_read_frames(zlib.decompress(self.upstream_frames)),
            caller_frames=_read_frames(zlib.decompress(self.caller_frames)),
            is_cut=self.is_cut,
        )


def pack(content: Content, redactor: Redactor) -> PackedContent:
    prompt, is_prompt_cut = _bounded(redactor.document(plain(content.prompt)))
    answer, is_answer_cut = _bounded(redactor.text(plain(content.answer)))
    upstream, is_upstream_cut = _bounded_frames(_redacted(content.upstream_frames, redactor))
    caller, is_caller_cut = _bounded_frames(_redacted(content.caller_frames, redactor))
    return PackedContent(
        request_id=plain(content.request_id),
        workspace_id=plain(content.workspace_id),
        key_id=plain(content.key_id),
        at_ms=content.at_ms,
        prompt=zlib.compress(prompt, _LEVEL),
        answer=zlib.compress(answer, _LEVEL),
        upstream_frames=zlib.compress(msgspec.json.encode(upstream), _LEVEL),
        caller_frames=zlib.compress(msgspec.json.encode(caller), _LEVEL),
        is_cut=content.is_cut or is_prompt_cut or is_answer_cut or is_upstream_cut or is_caller_cut,
    )


def write_contents(conn: Connection, packed: Sequence[PackedContent]) -> int:
    """Writes the contents of keys with `log_content`, once each. Returns their number."""
    key_ids = {each.key_id for each in packed}
    logging_keys = set(
        conn.execute(select(keys.c.id).where(keys.c.id.in_(key_ids), keys.c.log_content.is_(True))).scalars()
    )
    names = [_erasure(key_id) for key_id in logging_keys]
    erasures = conn.execute(select(counters.c.name, counters.c.value).where(counters.c.name.in_(names)))
    erased = {row.name: row.value for row in erasures}
    kept = [
        msgspec.structs.asdict(each)
        for each in packed
        if each.key_id in logging_keys and each.at_ms > erased.get(_erasure(each.key_id), -1)
    ]
    if kept:
        conn.execute(upsert(conn, contents).on_conflict_do_nothing(), kept)
    return len(kept)


def find_content(conn: Connection, request_id: str, workspace_id: str | None = None) -> PackedContent | None:
    """`workspace_id` None: of every workspace."""
    statement = select(contents).where(contents.c.request_id == plain(request_id))
    if workspace_id is not None:
        statement = statement.where(contents.c.workspace_id == plain(workspace_id))
    row = conn.execute(statement).mappings().one_or_none()
    return None if row is None else PackedContent(**row)


def delete_content(conn: Connection, request_id: str, workspace_id: str | None = None) -> bool:
    """Whether there was one."""
    statement = delete(contents).where(contents.c.request_id == plain(request_id))
    if workspace_id is not None:
        statement = statement.where(contents.c.workspace_id == plain(workspace_id))
    if conn.execute(statement).rowcount == 0:
        return False
    clear_content_flags(conn, [plain(request_id)])
    return True


def clear_content_flags(conn: Connection, request_ids: Sequence[str]) -> None:
    """Clears `has_content` in the rows of these requests."""
    of_them = requests.c.request_id.in_(request_ids)
    conn.execute(update(requests).where(of_them, requests.c.has_content.is_(True)).values(has_content=False))


def mark_erasure(conn: Connection, key_id: str, now_ms: int) -> None:
    """From now on no content of the key from before `now_ms` is written."""
    marking = upsert(conn, counters).values(name=_erasure(plain(key_id)), value=now_ms)
    conn.execute(marking.on_conflict_do_update(index_elements=[counters.c.name], set_={"value": now_ms}))


def _erasure(key_id: str) -> str:
    return f"erased:{key_id}"


def _redacted(frames: Sequence[Frame], redactor: Redactor) -> list[Frame]:
    return redactor.frames([(at_ms, plain(text)) for at_ms, text in frames])


def _bounded(text: str) -> tuple[bytes, bool]:
    data = text.encode()
    if len(data) <= MAX_BYTES:
        return data, False
    return data[:MAX_BYTES].decode(errors="ignore").encode(), True


def _bounded_frames(frames: Sequence[Frame]) -> tuple[list[Frame], bool]:
    """The first frames that fit, and the beginning of the next one."""
    kept: list[Frame] = []
    left = MAX_BYTES
    for at_ms, text in frames:
        data = text.encode()
        left -= _FRAME_BYTES
        if len(data) > left:
            if left > 0:
                kept.append((at_ms, data[:left].decode(errors="ignore")))
            return kept, True
        kept.append((at_ms, text))
        left -= len(data)
    return kept, False
