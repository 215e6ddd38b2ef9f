"""Contents: redacted before they are packed, bounded, read back as they were, within a workspace alone."""

from functools import partial
from pathlib import Path

from sqlalchemy import update

from streamweir.policy.redact import HIDDEN, Redactor
from streamweir.store.db.tables import keys
from streamweir.store.journal.entries import plain
from streamweir.store.requests.content import (
    MAX_BYTES,
    Content,
    PackedContent,
    delete_content,
    find_content,
    mark_erasure,
    pack,
    write_contents,
)
from streamweir.store.requests.requests import find_request
from support.contents import dump, make_content
from support.request_rows import NOW_MS, insert_key, insert_rows, request_row
from support.stores import each_database, store_on
from support.untrusted_texts import FOREIGN

NOTHING = Redactor()
SECRET = "sk-sw-" + "a1B2c3D4" * 6


def packed_again(content: Content) -> Content:
    return pack(content, NOTHING).unpack()


def test_what_is_packed_is_unpacked_as_it_was() -> None:
    content = make_content(1)
    assert packed_again(content) == content


def test_foreign_text_is_kept_as_far_as_a_database_takes_it() -> None:
    for text in FOREIGN:
        frames = [(1, text), (2, text)]
        kept = packed_again(make_content(1, prompt=text, answer=text, upstream_frames=frames, caller_frames=frames))
        assert (kept.prompt, kept.answer) == (plain(text), plain(text))
        assert kept.upstream_frames == kept.caller_frames == [(1, plain(text)), (2, plain(text))]
        assert not kept.is_cut


def test_every_body_is_bounded_at_a_character_and_says_so() -> None:
    long = "ä" * MAX_BYTES
    frames = [(number, "ä" * 1000) for number in range(2000)]
    for content in (
        make_content(1, prompt=long),
        make_content(1, answer="x" + long),
        make_content(1, upstream_frames=frames),
        make_content(1, caller_frames=[(1, long)]),
        make_content(1, caller_frames=[(1, "")] * 70_000),
    ):
        kept = packed_again(content)
        assert kept.is_cut
        for text in (kept.prompt, kept.answer):
            assert len(text.encode()) <= MAX_BYTES
        for kept_frames, all_frames in (
            (kept.upstream_frames, content.upstream_frames),
            (kept.caller_frames, content.caller_frames),
        ):
            assert sum(len(text.encode()) for _, text in kept_frames) <= MAX_BYTES
            assert list(kept_frames[:-1]) == list(all_frames[: len(kept_frames) - 1])
            assert all_frames[len(kept_frames) - 1][1].startswith(kept_frames[-1][1])
    assert not packed_again(make_content(1, answer="x" * MAX_BYTES)).is_cut
    assert packed_again(make_content(1, is_cut=True)).is_cut


def test_a_secret_is_in_none_of_the_bodies() -> None:
    pieces = [(number, f'{{"delta":{{"content":"{letter}"}}}}') for number, letter in enumerate(SECRET)]
    content = make_content(
        1,
        prompt=f'{{"messages":[{{"content":"\\n{SECRET}"}}]}}',
        answer="x" * (MAX_BYTES - 10) + " " + SECRET,
        upstream_frames=pieces,
        caller_frames=[(1, f"data: {SECRET}\n\n"), (2, "my-own-"), (3, "shape-77")],
    )
    kept = pack(content, Redactor([r"my-own-shape-\d+"])).unpack()
    assert kept.prompt == f'{{"messages":[{{"content":"\\n{HIDDEN}"}}]}}'
    assert kept.answer.endswith(f"x {HIDDEN}")
    assert [text for _, text in kept.upstream_frames] == [
        f'{{"delta":{{"content":"{HIDDEN}"}}}}',
        *['{"delta":{"content":""}}'] * (len(SECRET) - 1),
    ]
    assert list(kept.caller_frames) == [(1, f"data: {HIDDEN}\n\n"), (2, HIDDEN), (3, "")]


@each_database
async def test_contents_are_read_and_deleted_within_their_workspace(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await store.write(insert_key)
        await store.write(
            partial(insert_rows, rows=[request_row(1, has_content=True), request_row(2, has_content=True)])
        )
        packed = [pack(make_content(1), NOTHING), pack(make_content(2), NOTHING)]
        assert await store.write_content(partial(write_contents, packed=packed)) == 2
        await store.write_content(partial(write_contents, packed=packed))  # a second time changes nothing
        id = packed[0].request_id
        for owner in (None, "one"):
            found = await store.read(partial(find_content, request_id=id, workspace_id=owner))
            assert found == packed[0]
        for stranger in ("two", "", *FOREIGN):
            assert await store.read(partial(find_content, request_id=id, workspace_id=stranger)) is None
            assert not await store.write(partial(delete_content, request_id=id, workspace_id=stranger))
            assert await store.read(partial(find_content, request_id=stranger)) is None
        assert await store.write(partial(delete_content, request_id=id, workspace_id="one"))
        assert not await store.write(partial(delete_content, request_id=id))
        row = await store.read(partial(find_request, id=id))
        other = await store.read(partial(find_request, id=packed[1].request_id))
        assert row is not None
        assert other is not None
        assert (row.has_content, other.has_content) == (False, True)
        assert await store.read(partial(find_content, request_id=packed[1].request_id)) is not None


@each_database
async def test_only_content_of_keys_with_log_content_is_written(database: str, tmp_path: Path) -> None:
    def packed(number: int, key_id: str, at_ms: int = NOW_MS) -> PackedContent:
        return pack(make_content(number, key_id=key_id, at_ms=at_ms, answer=f"words of {number}"), NOTHING)

    async with store_on(database, tmp_path) as store:
        await store.write(insert_key)
        await store.write(partial(insert_key, id="key_2", log_content=False))
        waiting = [packed(1, "key_1"), packed(2, "key_2"), packed(3, "key_3")]
        assert await store.write_content(partial(write_contents, packed=waiting)) == 1
        # What waited in some queue while the key was erased is from before.
        await store.write(partial(mark_erasure, key_id="key_1", now_ms=NOW_MS))
        late = [packed(4, "key_1", NOW_MS), packed(5, "key_1", NOW_MS + 1)]
        assert await store.write_content(partial(write_contents, packed=late)) == 1
        await store.write(partial(mark_erasure, key_id="key_1", now_ms=NOW_MS + 9))
        assert await store.write_content(partial(write_contents, packed=[packed(6, "key_1", NOW_MS + 9)])) == 0
        # And a key may change its mind.
        await store.write(lambda conn: conn.execute(update(keys).values(log_content=False)).rowcount)
        assert await store.write_content(partial(write_contents, packed=[packed(7, "key_1", NOW_MS + 99)])) == 0
        everything = await store.read(dump)
    assert [number for number in range(1, 8) if f"words of {number}" in everything] == [1, 5]
