"""docs/spec says what the code does: its tables are compared with the values in the code, its examples are held to
the rules, and whatever is cited exists."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamweir.config.model import Limits, Timeouts
from streamweir.conformance import Recording, check
from streamweir.core.errors import CALLER_CODES, CODES, GATEWAY_CODES, UPSTREAM_CODES, CallerError, StreamweirError
from streamweir.core.errors import GatewayFault as Fault
from streamweir.core.errors import UpstreamError as Upstream
from streamweir.core.events import FinishReason
from streamweir.core.verdict import Verdict, verdict_of_error
from streamweir.frontends.carried import MAX_PACKED, MAX_UNPACKED
from streamweir.frontends.chat.dialect import Dialect, IdFormat, ModelRule, UsageRule
from streamweir.frontends.chat.errors import error_fields, stream_error_fields
from streamweir.frontends.chat.table import DIALECTS
from streamweir.frontends.error import STREAM_CODES
from streamweir.frontends.messages.errors import WORDS
from streamweir.frontends.messages.frontend import MESSAGES
from streamweir.frontends.messages.stop import stop_of
from streamweir.frontends.responses.echo import MAX_ECHOED
from streamweir.frontends.responses.encoder import MAX_CHARACTERS
from streamweir.frontends.responses.errors import stream_members
from streamweir.frontends.responses.finish import ending_of
from streamweir.frontends.responses.frontend import RESPONSES
from streamweir.policy.routing.retry import SHORT_WAIT_S, may_try_again, may_try_elsewhere
from streamweir.server.http.security_headers import SECURITY_HEADERS

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "docs" / "spec"
EXAMPLES = SPEC / "examples"
PAGES = {path.name: path.read_text() for path in sorted(SPEC.glob("*.md"))}
LETTERS = {
    "dialects.md": "DAE",
    "failures.md": "FUCGKI",
    "messages.md": "M",
    "responses.md": "P",
    "quirks.md": "WRQ",
    "security.md": "S",
    "embeddings.md": "V",
    "completions.md": "T",
}
"""With which letters the ids of a page begin."""
COLUMNS, ERROR_COLUMNS = (
    re.findall(r"`(\w+)`", line)
    for line in PAGES["dialects.md"].splitlines()
    if line.startswith("| id | ") and "`" in line
)
"""The dialects in the heads of the two tables. One without a column of errors has the words of `openai`."""


def test_every_page_is_in_the_list_of_ids() -> None:
    assert PAGES.keys() == {*LETTERS, "README.md"}


def rows_of(page: str) -> list[list[str]]:
    """The cells of every row of every table, without the heads and the lines below them."""
    lines = [line for line in PAGES[page].splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for number, row in enumerate(cells) if not is_head(cells, number)]


def is_head(cells: list[list[str]], number: int) -> bool:
    return any(set("".join(row)) == {"-"} for row in cells[number : number + 2])


def ids_of(page: str) -> list[str]:
    return [row[0] for row in rows_of(page) if re.fullmatch(r"[A-Z]\d{1,2}", row[0])]


def row_of(page: str, id: str) -> list[str]:
    (found,) = [row for row in rows_of(page) if row[0] == id]
    return found


def error_of(code: str) -> StreamweirError:
    kinds: tuple[type[StreamweirError], ...] = (CallerError, Upstream, Fault)
    (kind,) = [kind for kind in kinds if code in kind.codes]
    return kind(code, "What happened.")


IDS = {page: ids_of(page) for page in LETTERS}
EVERY_ID = {id for ids in IDS.values() for id in ids}


@pytest.mark.parametrize("page", LETTERS)
def test_an_id_is_in_one_place_only(page: str) -> None:
    assert len(set(IDS[page])) == len(IDS[page])
    assert {id[0] for id in IDS[page]} == set(LETTERS[page])


# Dialects.


def code_of(text: str) -> str:
    return f"`{text}`"


def compact(members: object) -> str:
    return code_of(json.dumps(members, separators=(",", ":")))


def codes_of(words: Iterator[str] | tuple[str, ...]) -> str:
    return " ".join(map(code_of, words))


ID_FORMS = {
    IdFormat.CHATCMPL: "`chatcmpl-` and 29 of A-Z, a-z, 0-9; the upstream's own if it begins so and has 16 or more",
    IdFormat.ILBS: "`ilbs_` and 24 of a-z, 0-9",
    IdFormat.STREAM_CHAT: "`stream:chat:` and a UUID (version 4)",
}
REASONS = (
    FinishReason.STOP,
    FinishReason.LENGTH,
    FinishReason.TOOL_CALLS,
    FinishReason.CONTENT_FILTER,
    FinishReason.FUNCTION_CALL,
)


def details_of(dialect: Dialect) -> str:
    details = {
        "prompt_tokens_details": dialect.prompt_details,
        "completion_tokens_details": dialect.completion_details,
    }
    names = sorted(details, reverse=not dialect.full_details)
    shown = [f"{code_of(name)}: {codes_of(tuple(members))}" for name in names if (members := details[name])]
    return "; ".join(shown) or "none"


def stream_error_of(dialect: Dialect) -> str:
    words = stream_error_fields(error_of("upstream_stream_reset"), dialect)
    if words.code is None:
        return f"{code_of(words.type)}, no code"
    return f"{code_of(words.type)}, {'its own code' if words.code == 'upstream_stream_reset' else code_of(words.code)}"


def cells_of(dialect: Dialect) -> dict[str, str]:
    """The column of a dialect, as its value has it."""
    request = dialect.request
    own_chunk, sent = "a chunk of its own, `choices: []`", "as the upstream sent it"
    return {
        "D3": ID_FORMS[dialect.id_format],
        "D4": code_of(dialect.chunk_object),
        "D5": "none" if dialect.whole_object is None else code_of(dialect.whole_object),
        "D6": "the time of each chunk" if dialect.created_per_chunk else "one value",
        "D7": "the model that answered" if dialect.model is ModelRule.REPORTED else "the id that was asked for",
        "D8": "none" if dialect.first_delta is None else compact(dialect.first_delta),
        "D9": compact(dialect.finish_delta),
        "D10": codes_of(tuple(dialect.finish_reasons[reason] for reason in REASONS)),
        "D11": "always" if dialect.usage is UsageRule.ALWAYS else "when asked for",
        "D12": "yes" if dialect.null_usage else "no",
        "D13": "the finish chunk" if dialect.usage is UsageRule.ON_FINISH else own_chunk,
        "D14": details_of(dialect),
        "D15": "one frame" if dialect.whole_tool_calls else "opener, then pieces",
        "D16": "`function_call`" if dialect.legacy_function_call else "a tool call",
        "D17": "`reasoning_content`" if dialect.reasoning else "left out",
        "D18": "sent" if dialect.reasoning_details else "left out",
        "D19": "`refusal`" if dialect.refusal else "`content`",
        "D20": sent if dialect.logprobs else "left out",
        "D21": sent if dialect.labels else "left out",
        "D22": codes_of(dialect.error_members),
        "D23": stream_error_of(dialect),
        "D24": "a chunk with `choices: []`" if dialect.error_in_chunk else "a frame of its own",
        "D25": code_of(dialect.terminator.decode().strip()) if dialect.terminator else "the close",
        "D26": "refused" if request.checks_stream_options else "ignored",
        "D27": "required" if request.model_required else "optional",
        "D28": "always streams" if request.always_streams else "default false",
        "D29": str(request.max_choices),
        "D30": "when asked for" if dialect.shows_cost else "never",
    }


@pytest.mark.parametrize("name", COLUMNS)
def test_the_table_of_dialects_is_the_one_in_the_code(name: str) -> None:
    expected = cells_of(DIALECTS[name])
    column = 2 + COLUMNS.index(name)
    assert {id: row_of("dialects.md", id)[column] for id in expected} == expected
    assert [id for id in IDS["dialects.md"] if id[0] == "D"] == ["D1", "D2", *expected]


def test_the_table_has_every_dialect() -> None:
    assert list(DIALECTS) == COLUMNS


@pytest.mark.parametrize("id", [id for id in IDS["dialects.md"] if id[0] == "E"])
def test_an_error_before_the_stream_has_the_fields_of_its_row(id: str) -> None:
    _, _, codes, *cells = row_of("dialects.md", id)
    for code in re.findall(r"`(\w+)`", codes):
        shown = dict(zip(ERROR_COLUMNS, cells, strict=True))
        for name in COLUMNS:
            cell = shown[name if name in shown else "openai"]
            words = error_fields(error_of(code), DIALECTS[name])
            has_code = "code" in DIALECTS[name].error_members
            expected = f"{words.status} {words.type}" + (f" / {words.code or 'null'}" if has_code else "")
            assert cell.replace("its code", code) == expected, (code, name)


def test_a_code_is_in_one_row_of_the_errors_before_the_stream() -> None:
    codes = [
        code
        for id in IDS["dialects.md"]
        if id[0] == "E"
        for code in re.findall(r"`(\w+)`", row_of("dialects.md", id)[2])
    ]
    assert len(codes) == len(set(codes))
    assert {code for code, spec in CODES.items() if spec.status == 400} <= set(codes)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.sse")), ids=lambda path: path.stem)
def test_an_example_breaks_no_rule_of_its_dialect(path: Path) -> None:
    report = check(Recording(body=path.read_bytes()), DIALECTS[path.stem.partition("-")[0]])
    assert [f"{finding.rule}: {finding.message}" for finding in report.findings] == []


def test_every_dialect_has_an_example_of_each_kind() -> None:
    kinds = ("text", "tool-call", "error")
    assert {path.stem for path in EXAMPLES.iterdir()} == {f"{name}-{kind}" for name in DIALECTS for kind in kinds}


# Failures.


def test_the_table_of_codes_is_the_one_in_the_code() -> None:
    own_reasons = {"key_revoked", "budget_exceeded"}
    expected = {
        code_of(code): [
            str(spec.status),
            code_of(spec.type),
            "yes" if spec.may_retry else "no",
            "yes" if code in STREAM_CODES | GATEWAY_CODES.keys() | own_reasons else "no",
        ]
        for code, spec in CODES.items()
    }
    _, _, table = PAGES["failures.md"].partition("\n## Codes\n")
    shown = [row for row in rows_of("failures.md") if f"| {row[0]} | {row[1]} |" in table and len(row) == 5]
    assert {code: cells for code, *cells in shown} == expected
    assert len(shown) == len(expected) == len(CALLER_CODES) + len(UPSTREAM_CODES) + len(GATEWAY_CODES)


FAILURES = [id for id in IDS["failures.md"] if id[0] in "UCG"]


@pytest.mark.parametrize("id", FAILURES)
def test_a_failure_has_the_codes_statuses_and_verdicts_that_the_gateway_has(id: str) -> None:
    _, _, told, record = row_of("failures.md", id)
    with_status = re.findall(r"`(\d{3}) (\w+)`", told)
    in_stream = re.findall(r"`E\((\w+)\)`", told)
    for status, code in with_status:
        assert CODES[code].status == int(status), code
    for code in in_stream:
        words = stream_error_fields(error_of(code), DIALECTS["openai"])
        assert words.code == code, "no code of its own in a stream"
    codes = {code for _, code in with_status} | set(in_stream)
    verdicts = {word for word in re.findall(r"`([a-z_]+)`", record) if word in set(Verdict)}
    if len(codes) == 1 and len(verdicts) == 1:
        assert {verdict_of_error(error_of(code)) for code in codes} == verdicts
    elif verdicts and codes:
        assert verdicts & {verdict_of_error(error_of(code)) for code in codes}


def test_what_is_tried_again_is_what_the_code_tries() -> None:
    again, waited = (re.findall(r"`([a-z_]+)`", part) for part in row_of("failures.md", "K8")[1].split("; "))
    assert set(again) == {code for code in CODES if may_try_again(error_of(code))}
    waits = {code for code in UPSTREAM_CODES if may_try_again(Upstream(code, "m", retry_after_s=SHORT_WAIT_S))}
    assert waits == {*again, *waited}
    assert f"above {SHORT_WAIT_S:g} seconds" in row_of("failures.md", "K8")[1]
    begins, *named = re.findall(r"`([a-z_]+)`", row_of("failures.md", "K9")[1])
    expected = {code for code in CODES if code.startswith(begins) or code in named}
    assert {code for code in CODES if may_try_elsewhere(error_of(code))} == expected


def test_every_row_of_failures_has_its_number() -> None:
    for letter, last in (("U", 42), ("C", 34), ("G", 33)):
        assert [id for id in FAILURES if id[0] == letter] == [f"{letter}{n}" for n in range(1, last + 1)]


def test_the_verdicts_are_those_in_the_code() -> None:
    (listed,) = re.findall(r"^Verdicts: (.*?)\.$", PAGES["failures.md"], re.MULTILINE | re.DOTALL)
    assert re.findall(r"`(\w+)`", listed) == [str(verdict) for verdict in Verdict]


def test_timers_and_limits_are_the_defaults() -> None:
    defaults = {name: getattr(each, name) for each in (Timeouts(), Limits()) for name in each.__struct_fields__}
    _, _, table = PAGES["failures.md"].partition("\n## Timers and limits\n")
    shown = re.findall(r"`(\w+)` \| ([\d.]+)", table.partition("\n## ")[0])
    assert {name: float(value) for name, value in shown} == {
        name: value for name, value in defaults.items() if value is not None
    }


# Security and quirks.


def test_the_headers_of_the_console_are_those_that_are_sent() -> None:
    shown = [tuple(cell.strip("`") for cell in row) for row in rows_of("security.md") if len(row) == 2]
    assert [row for row in shown if row[0] not in EVERY_ID] == list(SECURITY_HEADERS)


def test_every_fixture_that_is_named_exists() -> None:
    named = set(re.findall(r"`([a-z-]+/[a-z0-9_]+)`", PAGES["quirks.md"])) - {"application/json"}
    assert [name for name in sorted(named) if not (ROOT / "tests" / "fixtures" / name).is_dir()] == []
    assert len(named) > 50


# Messages.


def test_the_errors_of_messages_are_those_that_are_sent() -> None:
    rows = [row for row in rows_of("messages.md") if re.fullmatch(r"\d{3}", row[0])]
    shown = {(int(status), kind.strip("`"), code) for status, kind, codes in rows for code in re.findall(r"\w+", codes)}
    assert shown == {(words.status, words.type, code) for code, words in WORDS.items()}
    sent = {code: MESSAGES.write_error(error_of(code), "req_1") for code in WORDS}
    for status, kind, code in shown:
        document = json.loads(sent[code].body)
        assert (sent[code].status, document["error"]["type"], document["type"]) == (status, kind, "error")


def test_the_stop_reasons_of_messages_are_those_that_are_sent() -> None:
    rows = {row[0].strip("`"): row[1] for row in rows_of("messages.md") if len(row) == 2}
    for reason in FinishReason:
        assert rows[reason.value].startswith(f"`{stop_of(reason, '', None).reason}`"), reason
    assert "`stop_sequence`" in rows["stop"]
    assert stop_of(FinishReason.STOP, "", "END") == ("stop_sequence", "END")


def test_the_sizes_of_envelopes_are_those_in_the_code() -> None:
    assert re.findall(r"\d{4,}", row_of("messages.md", "M20")[1]) == [str(MAX_PACKED), str(MAX_UNPACKED)]


# Responses.


def test_the_ends_of_responses_are_those_that_are_sent() -> None:
    rows = {row[0].strip("`"): row[1:] for row in rows_of("responses.md") if len(row) == 3}
    for finish in FinishReason:
        ending = ending_of(finish)
        assert rows[finish.value] == [f"`{ending.status}`", f"`{ending.reason}`" if ending.reason else "-"]


def test_the_codes_in_a_stream_of_responses_are_those_that_are_sent() -> None:
    table = PAGES["responses.md"].partition("| in a stream | codes |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    shown = {code: row[0].strip("`") for row in rows for code in re.findall(r"`(\w+)`", row[1])}
    assert {code: stream_members(error_of(code))["code"] for code in CODES} == {
        code: shown.get(code, "server_error") for code in CODES
    }


def test_the_sizes_in_responses_are_those_in_the_code() -> None:
    assert re.findall(r"\d{4,}", row_of("responses.md", "P16")[1]) == [str(MAX_ECHOED)]
    assert re.findall(r"\d{4,}", row_of("responses.md", "P17")[1]) == [str(MAX_CHARACTERS)]
    assert f"after {RESPONSES.max_quiet_s:g} s at the latest" in row_of("responses.md", "P14")[1]


# What is cited.

FOLDERS = ("src", "tests", "bench", "scripts", "sdks", "docs")
SUFFIXES = {".py", ".ts", ".tsx", ".md", ".toml", ".lua"}
SKIPPED = {"node_modules", "static", "fixtures", "__pycache__"}
DOCUMENT = re.compile(r"[\w./-]*\w\.md\b")
CITED = re.compile(r"docs/spec/(\w+\.md)((?:(?:,| and| to)? [A-Z]\d{1,2}\b)*)")
BARE = re.compile(r"(?<![\w%/.\-])([UCGS]\d{1,2})(?![\w%])")
NAMED = re.compile(r"def test_((?:[ucgs]\d{1,2}_)+)")
NO_DOCUMENTS = {"report.md", "build/bench/console.md", "a.md", "readme.md", "index.md"}
"""Files that a program writes, and names in the texts of tests."""


@pytest.fixture(scope="module")
def texts() -> list[tuple[Path, str]]:
    return list(sources())


def sources() -> Iterator[tuple[Path, str]]:
    for folder in (*(ROOT / name for name in FOLDERS), ROOT):
        found = folder.glob("*.md") if folder == ROOT else folder.rglob("*")
        for path in sorted(found):
            if path == Path(__file__):
                continue
            if path.suffix in SUFFIXES and not SKIPPED.intersection(path.relative_to(ROOT).parts):
                yield path, path.read_text()


def test_no_document_is_cited_that_is_not_in_the_repository(texts: list[tuple[Path, str]]) -> None:
    missing = set()
    for path, text in texts:
        for name in set(DOCUMENT.findall(text)) - NO_DOCUMENTS if ".md" in text else ():
            places = [ROOT]
            if path.suffix == ".md":  # a link
                places.append(path.parent)
            elif "/" not in name:  # as in ROOT / "docs" / "api.md"
                places.append(ROOT / "docs")
            if not any((place / name).is_file() for place in places):
                missing.add(f"{path.relative_to(ROOT)}: {name}")
    assert sorted(missing) == []


def test_every_id_that_is_cited_exists(texts: list[tuple[Path, str]]) -> None:
    missing, count = set(), 0
    for path, text in texts:
        cited = [(page, id) for page, ids in CITED.findall(text) for id in re.findall(r"[A-Z]\d+", ids)]
        unknown = [f"{page} {id}" for page, id in cited if id not in IDS.get(page, ())]
        if path.suffix == ".py":
            ids = [*BARE.findall(text), *(id.upper() for ids in NAMED.findall(text) for id in ids.split("_") if id)]
            unknown += [id for id in ids if id not in EVERY_ID]
            count += len(cited) + len(ids)
        missing |= {f"{path.relative_to(ROOT)}: {each}" for each in unknown}
    assert sorted(missing) == []
    assert count > 500, "they are not found any more"
