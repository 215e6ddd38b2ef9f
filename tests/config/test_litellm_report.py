"""What is reported about a setting is one thing, however many deployments read it."""

from streamweir.config.litellm.report import NOT_READ, Note, Outcome, Place, Report, merge_notes

TREE: dict[str, object] = {"shared": {"a": 1, "b": 2, "empty": []}, "other": [5, None]}


def reported(*calls: tuple[str, str, str, str]) -> Outcome:
    """Of calls of a report: method, path, reader and text."""
    report = Report()
    report.convert(Place("other[0]"))
    for method, path, reader, text in calls:
        arguments = [text] if text else []
        getattr(report, method)(Place(path, reader), *arguments)
    return report.finish(TREE)


def test_nothing_is_lost_without_a_word() -> None:
    assert reported(("convert", "shared.a", "", "")).dropped == [Note("shared.b", NOT_READ)]
    assert reported(("drop", "shared", "", "why not")) == (["other[0]"], [], [Note("shared", "why not")])


def test_a_note_follows_a_conversion_and_a_reason_replaces_both() -> None:
    calls = [("convert", "shared.a", "", ""), ("note", "shared.a", "", "one"), ("note", "shared.a", "", "two")]
    assert reported(*calls).noted == [Note("shared.a", "one; two")]
    outcome = reported(*calls, ("drop", "shared.a", "", "why not"), ("note", "shared.a", "", "three"))
    assert (outcome.noted, outcome.dropped[0]) == ([], Note("shared.a", "why not"))


def test_what_only_some_readers_convert_is_converted_with_a_note() -> None:
    outcome = reported(
        ("convert", "shared.a", "model_list[0]", ""),
        ("drop", "shared.a", "model_list[1]", "why not"),
        ("drop", "shared.b", "model_list[0]", "why not"),
        ("drop", "shared.b", "model_list[1]", "why not"),
    )
    assert outcome.noted == [Note("shared.a", "not for model_list[1]: why not")]
    assert outcome.dropped == [Note("shared.b", "why not")]


def test_what_a_reader_said_can_be_forgotten() -> None:
    report = Report()
    report.note(Place("shared.a", "model_list[0]"), "one")
    report.convert(Place("shared.a", "model_list[1]"))
    report.forget("model_list[0]")
    assert report.finish(TREE).converted == ["shared.a"]


def test_equal_notes_of_several_entries_are_one_line() -> None:
    notes = [Note(f"model_list[{number}].rpm", "text") for number in (0, 1, 2, 5, 7, 8)]
    others = [Note("model_list[3].rpm", "other"), Note("model_list[3].tpm", "text"), Note("top", "text")]
    assert list(map(str, merge_notes([*notes, *others]))) == [
        "model_list[0-2,5,7-8].rpm: text",
        "model_list[3].rpm: other",
        "model_list[3].tpm: text",
        "top: text",
    ]
