"""Exports of providers in the form in which they publish them: what is read from each, and what is refused.

The files of `exportdata` are written by hand, with the columns and members of the real ones.
"""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from streamweir.policy.billing.exports.base import (
    DAY_MS,
    HOUR_MS,
    Amounts,
    ExportError,
    day_name,
    midnight_in,
    moment_of,
    start_of_day,
)
from streamweir.policy.billing.exports.google import model_of
from streamweir.policy.billing.exports.read import read_export
from streamweir.policy.billing.reconciliation import compare
from support.soak import SOAKS

DATA = Path(__file__).parent / "exportdata"
PIECES = [b"", b"null", b"true", b"-1", b"1e999", b"1e-400", b"NaN", b"[]", b"{}", b'"', b'"x"', b",", b"\n", b"\xff"]
PIECES += [b"9" * 30, b"0001-01-01", b"9999-12-31", b"253402300800", "\u2028".encode()]
FIRST = moment_of("2026-10-01", "")
SECOND = FIRST + DAY_MS
CENT = 10**7
GPT = Amounts(requests=10, input_tokens=59_200, cached_tokens=5760, output_tokens=10_646)
HAIKU = "claude-haiku-4-5-20251001"
FLASH = "gemini 2.5 flash"
READ = {
    "openai-usage.json": [
        (FIRST, SECOND, "gpt-4o-2024-08-06", "key_main", GPT),
        (
            FIRST,
            SECOND,
            "gpt-4o-mini-2024-07-18",
            "key_spare",
            Amounts(requests=2, input_tokens=1000, cached_tokens=0, output_tokens=200),
        ),
    ],
    "openai-usage.csv": [(FIRST, SECOND, "gpt-4o-2024-08-06", "key_main", GPT)],
    "openai-costs.json": [
        (FIRST, SECOND, "gpt-4o-2024-08-06", None, Amounts(cost=140_800_000)),
        (FIRST, SECOND, "gpt-4o-2024-08-06", None, Amounts(cost=7_200_000)),
        (FIRST, SECOND, "gpt-4o-2024-08-06", None, Amounts(cost=106_460_000)),
        (FIRST, SECOND, "web search tool calls", None, Amounts(cost=30_000_000)),
    ],
    "openai-costs.csv": [(FIRST, SECOND, None, None, Amounts(cost=254_460_000))],
    "anthropic-usage.json": [
        (
            FIRST + 13 * HOUR_MS,
            FIRST + 14 * HOUR_MS,
            HAIKU,
            "apikey_01AAA",
            Amounts(input_tokens=3200, cached_tokens=200, output_tokens=500),
        ),
    ],
    "anthropic-usage.csv": [
        (FIRST, SECOND, HAIKU, "main", Amounts(input_tokens=3200, cached_tokens=200, output_tokens=500)),
        (FIRST, SECOND, HAIKU, "main", Amounts(input_tokens=1, cached_tokens=0, output_tokens=2)),
    ],
    "anthropic-costs.json": [
        (FIRST, SECOND, HAIKU, None, Amounts(cost=1_237_891_200)),
        (FIRST, SECOND, "Web Search Usage", None, Amounts(cost=10 * CENT)),
    ],
    "anthropic-costs.csv": [
        (FIRST, SECOND, "Claude Haiku 4.5", "main", Amounts(cost=5 * CENT, rounding=CENT // 2)),
        (FIRST, SECOND, "Claude Haiku 4.5", "main", Amounts(cost=2 * CENT, rounding=CENT // 2)),
        (SECOND, SECOND + DAY_MS, "web_search", None, Amounts(cost=10 * CENT, rounding=CENT // 2)),
    ],
    "google-report.csv": [
        (
            FIRST + 7 * HOUR_MS,
            SECOND + 7 * HOUR_MS,
            FLASH,
            None,
            Amounts(input_tokens=1_983_966, cached_tokens=0, output_tokens=0, cost=595_190_000),
        ),
        (
            FIRST + 7 * HOUR_MS,
            SECOND + 7 * HOUR_MS,
            FLASH,
            None,
            Amounts(input_tokens=1000, cached_tokens=1000, output_tokens=0, cost=30_000),
        ),
        (
            FIRST + 7 * HOUR_MS,
            SECOND + 7 * HOUR_MS,
            FLASH,
            None,
            Amounts(input_tokens=0, cached_tokens=0, output_tokens=461_280, cost=1_103_200_000),
        ),
        (
            SECOND + 7 * HOUR_MS,
            SECOND + DAY_MS + 7 * HOUR_MS,
            "grounding with google search",
            None,
            Amounts(input_tokens=0, cached_tokens=0, output_tokens=0, cost=105_000_000),
        ),
    ],
    "google-table.csv": [
        (
            FIRST + 7 * HOUR_MS,
            FIRST + 31 * DAY_MS + 7 * HOUR_MS,
            "gemini 2.5 pro",
            "demo-1",
            Amounts(input_tokens=0, cached_tokens=0, output_tokens=2000, cost=2 * CENT),
        ),
        (
            FIRST + 7 * HOUR_MS,
            FIRST + 31 * DAY_MS + 7 * HOUR_MS,
            "gemini 2.5 pro",
            "demo-1",
            Amounts(input_tokens=0, cached_tokens=0, output_tokens=0, cost=-CENT * 3 // 2),
        ),
        (
            FIRST + 7 * HOUR_MS,
            FIRST + 31 * DAY_MS + 7 * HOUR_MS,
            "gemini 2.5 pro",
            "demo-1",
            Amounts(input_tokens=4000, cached_tokens=0, output_tokens=0, cost=CENT // 2),
        ),
    ],
    "google-bigquery.json": [
        (
            FIRST + 7 * HOUR_MS,
            FIRST + 8 * HOUR_MS,
            "gemini 2.5 flash lite",
            "demo-1",
            Amounts(input_tokens=3_000_000, cached_tokens=0, output_tokens=0, cost=20 * CENT),
        ),
    ],
}


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.iterdir()))
def test_what_is_read(name: str) -> None:
    export = read_export((DATA / name).read_bytes())
    assert export.provider == name.partition("-")[0]
    assert export.zone == ("Pacific" if name.startswith("google") and name.endswith("csv") else "UTC")
    assert [(row.start_ms, row.end_ms, row.model, row.key, row.amounts) for row in export.rows] == READ[name]


def test_what_is_left_out_is_noted() -> None:
    notes = {path.name: read_export(path.read_bytes()).notes for path in DATA.iterdir()}
    assert {name: found for name, found in notes.items() if found} == {
        "openai-usage.json": ["The last page says has_more: there are further pages, which are not in this file."],
        "google-report.csv": ["Rows of other services, which were left out: 1."],
        "google-bigquery.json": ["Rows of other services, which were left out: 1."],
    }


@pytest.mark.parametrize(
    ("data", "expected", "notes"),
    [
        (
            b"start_time,num_model_requests,input_tokens,model\n1790812800,3,100,gpt-4o\n",
            Amounts(requests=3, input_tokens=100),
            ["input_cached_tokens: its cached input", "output_tokens: its output"],
        ),
        (
            b"usage_date_utc,model_version,usage_input_tokens_no_cache,usage_input_tokens_cache_read,usage_output_tokens\n"
            b"2026-10-01,claude-haiku-4-5,100,7,5\n",
            Amounts(cached_tokens=7, output_tokens=5),
            ["usage_input_tokens_cache_write_5m: its input", "usage_input_tokens_cache_write_1h: its input"],
        ),
    ],
)
def test_a_column_that_a_file_lacks_is_not_taken_for_zeros(data: bytes, expected: Amounts, notes: list[str]) -> None:
    found = read_export(data)
    assert [row.amounts for row in found.rows] == [expected]
    assert found.notes == [f"The file has no column {note} is not compared." for note in notes]


def test_several_pages_in_one_file() -> None:
    page = (DATA / "openai-costs.json").read_bytes().replace(b"\n", b"")
    for data in (b"[%b,%b]" % (page, page), b"%b\n\n%b\n" % (page, page)):
        assert len(read_export(data).rows) == 8
    rows = (DATA / "google-bigquery.json").read_bytes().splitlines()
    assert read_export(b"[%b]" % b",".join(rows)) == read_export(b"\n".join(rows))


def test_files_as_other_programs_write_them() -> None:
    data = (DATA / "openai-usage.csv").read_bytes()
    for changed in (b"\xef\xbb\xbf" + data, data.replace(b"\n", b"\r\n"), data.replace(b",", b"\t")):
        assert read_export(changed) == read_export(data)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "expected a usage or cost export"),
        (b"a,b\n1,2\n", "expected a usage or cost export"),
        (b"\x00\x01", "expected a usage or cost export"),
        (b"\xff\xfe", "not text in UTF-8"),
        (b"{}", "expected a usage or cost export"),
        (b"[]", "expected a usage or cost export"),
        (b'{"data": [', "line 1 is not JSON"),
        (b'{"data":[{"start_time":1790812800,"results":[]}]}', "the file has no usage"),
        (b'{"data":[{"start_time":1790812800,"results":7}]}', r"page 1, data\[0\].results: expected a list"),
        (
            b'{"data":[{"start_time":1790812800,"results":[{"input_tokens":-1}]}]}',
            r"results\[0\].input_tokens: expected a count, found '-1'",
        ),
        (b'{"data":[{"start_time":1790812800,"results":[{"input_tokens":NaN}]}]}', "not finite or too large"),
        (b'{"data":[{"start_time":1790812800,"results":[{"input_tokens":1e400}]}]}', "not finite or too large"),
        (b'{"data":[{"start_time":1790812800,"results":[{"input_tokens":1.5}]}]}', "expected a count, found '1.5'"),
        (b'{"data":[{"start_time":1790812800,"results":[{"input_tokens":true}]}]}', "expected a number, found 'True'"),
        (
            b'{"data":[{"start_time":1790812800,"results":[{"amount":{"value":1,"currency":"eur"}}]}]}',
            "not in US dollars but in 'eur'",
        ),
        (
            b'{"data":[{"start_time":1790812800,"results":[{"amount":{"value":1e10,"currency":"usd"}}]}]}',
            "the amount is too large",
        ),
        (
            b'{"data":[{"start_time":1790812800,"results":[{"amount":{"value":1,"currency":"usd"}},{"input_tokens":1}]}]}',
            "both usage and costs",
        ),
        (b'{"data":[{"starting_at":"yesterday","results":[]}]}', "expected a date or a time in UTC, found 'yesterday'"),
        (b'{"data":[{"starting_at":"2026-02-30","results":[]}]}', "found '2026-02-30'"),
        (b'{"data":[{"starting_at":"2026-10-01T00:00:00+02:00","results":[]}]}', "expected a date or a time in UTC"),
        (b'{"data":[{"start_time":1,"results":[{"input_tokens":1}]}]}', "start_time: the time is not of this century"),
        (b'{"data":[{"start_time":"1e999","results":[{"input_tokens":1}]}]}', "start_time: expected a count"),
        (b'{"data":[{"starting_at":"0001-01-01","results":[]}]}', "the time is not of this century"),
        (
            b'{"data":[{"start_time":1790812800,"end_time":1790812800,"results":[{"input_tokens":1}]}]}',
            "ends before it begins",
        ),
        (b"usage_date_utc,model,cost_usd\n2026-10-01,m,NaN\n", "line 2, cost_usd: expected a number, found 'NaN'"),
        (b"usage_date_utc,model,cost_usd\n2026-10-01,m,1,2\n", "line 2 has more values than there are columns"),
        (b"usage_date_utc,model,cost_usd\n2026-10-01,m,1\n2026-10-02,m\n", "line 3 has fewer values than there are"),
        (b'usage_date_utc,model,cost_usd\n2026-10-01,"m"x,1\n', "line 2 is not CSV"),
        (b"SKU description,Cost (\xe2\x82\xac)\nGemini 3 input,1\n", "not in US dollars"),
        (b"Date,SKU description\n2026-10-01,Gemini 3 input\n", "no column with the cost"),
        (b"SKU description,Cost ($)\nGemini 3 input,1\n", "the file has no dates"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(data: bytes, told: str) -> None:
    with pytest.raises(ExportError, match=told):
        read_export(data)


def test_periods_of_a_report_without_dates() -> None:
    month = read_export(b"Month,SKU description,Cost ($)\n2028-02,Gemini 3 input,1\n").rows[0]
    assert (day_name(month.start_ms, "Pacific"), day_name(month.end_ms - 1, "Pacific")) == ("2028-02-01", "2028-02-29")
    above = b"Start date,2026-10-01\nEnd date,2026-10-02\n\nSKU description,Cost ($)\nGemini 3 input,1\n"
    row = read_export(above).rows[0]
    assert (day_name(row.start_ms, "Pacific"), day_name(row.end_ms - 1, "Pacific")) == ("2026-10-01", "2026-10-02")


@pytest.mark.parametrize(
    ("sku", "model"),
    [
        ("Generate content output token count gemini 3.1 flash lite preview text", "gemini 3.1 flash lite preview"),
        ("GenerateContent text output token count for Gemini 2.0 Flash", "gemini 2.0 flash"),
        ("Generate_content image output token count for Gemini 3 Pro Image", "gemini 3 pro image"),
        ("Generate_content cached image input token count for gemini 3 flash", "gemini 3 flash"),
        ("Generate content input token count gemini 3.7 flash image flex caching", "gemini 3.7 flash"),
        ("Generate_content_cached_input_token_count_gemini_3_pro_short_image", "gemini 3 pro"),
        (
            "Generate_content image output token count for Gemini 2.5 Flash Native Image Generation",
            "gemini 2.5 flash image",
        ),
        ("Gemini 3.8 Flash Global Text Input Caching Offpeak", "gemini 3.8 flash"),
        ("Gemini ER1.6 Text Batch Output - Online Predictions", "gemini er1.6"),
        ("EmbedContent input token count for gemini-embedding-2 text", "gemini-embedding-2"),
        ("Gemini 2.5 Pro Thinking Text Output - Predictions", "gemini 2.5 pro"),
        ("Text Input", "Text Input"),
    ],
)
def test_the_model_of_a_sku(sku: str, model: str) -> None:
    assert model_of(sku) == model


def test_other_dollars_are_not_taken_for_those_of_the_united_states() -> None:
    table = (DATA / "google-table.csv").read_bytes()
    with pytest.raises(ExportError, match="not in US dollars but in 'AUD'"):
        read_export(table.replace(b"Currency,USD", b"Currency,AUD"))


def test_tokens_of_a_sku_whose_words_are_joined() -> None:
    sku = "Generate_content_cached_input_token_count_gemini_3_pro_short_image"
    row = read_export(f"Date,SKU description,Usage amount,Usage unit,Cost ($)\n2026-10-01,{sku},5,count,1\n".encode())
    assert row.rows[0].amounts == Amounts(
        input_tokens=5, cached_tokens=5, output_tokens=0, cost=100 * CENT, rounding=CENT // 2
    )


@pytest.mark.parametrize(
    ("column", "costs", "rounding"),
    [
        ("Cost", ("1", "0", "0.5", "0.05"), CENT // 2),
        ("Cost", ("1", "0.0512"), 0),
        ("Unrounded subtotal", ("0", "12"), 0),
    ],
)
def test_only_what_may_be_rounded_to_cents_may_differ_by_half_of_one(
    column: str, costs: tuple[str, ...], rounding: int
) -> None:
    lines = [f"2026-10-01,Gemini 2.5 Pro Text Output,5,count,{cost}" for cost in costs]
    text = "\n".join([f"Date,SKU description,Usage amount,Usage unit,{column} ($)", *lines])
    assert {row.amounts.rounding for row in read_export(text.encode()).rows} == {rounding}


def test_costs_of_anthropic_with_parts_of_a_cent_are_exact() -> None:
    text = "usage_date_utc,model,cost_usd\n2026-10-01,Claude Haiku 4.5,2\n2026-10-01,Claude Haiku 4.5,5E-06\n"
    assert [(row.amounts.cost, row.amounts.rounding) for row in read_export(text.encode()).rows] == [
        (200 * CENT, 0),
        (5000, 0),
    ]


@pytest.mark.parametrize(
    ("day", "begins", "hours"),
    [
        ("2026-01-15", "2026-01-15 08:00", 24),
        ("2026-03-08", "2026-03-08 08:00", 23),  # clocks go forward
        ("2026-03-09", "2026-03-09 07:00", 24),
        ("2026-11-01", "2026-11-01 07:00", 25),  # and back
        ("2026-11-02", "2026-11-02 08:00", 24),
    ],
)
def test_days_in_pacific_time(day: str, begins: str, hours: int) -> None:
    start = midnight_in(moment_of(day, ""), "Pacific")
    assert start == moment_of(begins, "")
    end = midnight_in(moment_of(day, "") + DAY_MS, "Pacific")
    assert end - start == hours * HOUR_MS
    for at_ms in range(start, end, HOUR_MS):
        assert (start_of_day(at_ms, "Pacific"), day_name(at_ms, "Pacific")) == (start, day)
    assert day_name(start - 1, "Pacific") < day < day_name(end, "Pacific")


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.iterdir()))
def test_a_damaged_file_is_read_or_refused_and_nothing_else(name: str) -> None:
    chance, data = random.Random(name), (DATA / name).read_bytes()
    for _ in range(20_000 if SOAKS else 150):
        damaged = bytearray(data)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(damaged))
            damaged[at : at + chance.randrange(20)] = chance.choice(PIECES)
        with suppress(ExportError):
            export = read_export(bytes(damaged))
            assert not compare(export, [], models={}, keys={}, tolerance_percent=100).differs
