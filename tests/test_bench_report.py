"""What the benchmark's report says of a record: medians, ratios within a round, verdicts, plots that can be read."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench.claims import CLAIMS, Claim, Verdict, judge, judge_one, own
from bench.plot import Group, Line, bars, lines
from bench.record import DIRECT, Record
from bench.report import as_json, markdown, plots, write

OURS, PLAIN = "streamweir", "without accounting"
BEDROCK = "CPU per chunk, lockstep, Bedrock's Converse to openai, or Claude on Bedrock passed or to openai"
SVG = "{http://www.w3.org/2000/svg}"


def record_of(**rounds: dict[str, list[float]]) -> Record:
    """`nginx={"passed.chunk_cpu_us": [one number per round]}`; `ours` is what is claimed to be good."""
    named = {{"ours": OURS, "plain": PLAIN}.get(name, name): figures for name, figures in rounds.items()}
    record = Record({name: f"{name} 1.0" for name in named if name != DIRECT}, (0, 1))
    for system, figures in named.items():
        for figure, values in figures.items():
            scenario, _, name = figure.partition(".")
            for value in values:
                record.add(system, scenario, {name: value})
    record.add_differences()
    return record


def full_record(**changed: float) -> Record:
    """Of two rounds, in which every claim is kept, except for what is changed."""
    ours = {
        "passed.chunk_cpu_us": 8.0,
        "translated.chunk_cpu_us": 12.0,
        "anthropic.chunk_cpu_us": 15.0,
        "gemini.chunk_cpu_us": 16.0,
        "messages_passed.chunk_cpu_us": 10.0,
        "messages.chunk_cpu_us": 14.0,
        "from_responses.chunk_cpu_us": 14.0,
        "responses_passed.chunk_cpu_us": 10.0,
        "responses.chunk_cpu_us": 16.0,
        "converse.chunk_cpu_us": 12.0,
        "invoke_passed.chunk_cpu_us": 11.0,
        "invoke.chunk_cpu_us": 13.0,
        "resumable.ratio": 1.1,
        "short.request_cpu_us": 100.0,
        "first_text.first_text_us": 50_500.0,
        "memory.stream_kib": 11.0,
        "memory.idle_mb": 60.0,
        "growth.ratio": 1.2,
        "growth.chunk_cpu_us_100": 8.0,
        "growth.chunk_cpu_us_5000": 9.6,
        "start.first_answer_s": 1.0,
        "paced_100.transit_p50_ms": 0.2,
        "paced_1000.transit_p50_ms": 0.4,
        "paced_1000.delivered": 49_000.0,
        **{f"overload.goodput_{times}": 0.9 for times in (3, 10)},
        **{f"overload.accepted_p99_ms_{times}": 900.0 for times in (3, 10)},
        **{f"overload.refusal_p99_ms_{times}": 40.0 for times in (3, 10)},
        **{f"overload.health_p99_ms_{times}": 40.0 for times in (3, 10)},
        **{f"overload.quiet_refused_{times}": 0.0 for times in (3, 10)},
    }
    nginx = {"passed.chunk_cpu_us": 5.0, "short.request_cpu_us": 20.0, "paced_1000.delivered": 50_000.0}
    return record_of(
        direct={"first_text.first_text_us": [50_100.0] * 2},
        nginx={name: [value] * 2 for name, value in nginx.items()},
        ours={name: [changed.get(name.replace(".", "__"), value)] * 2 for name, value in ours.items()},
        litellm={"passed.chunk_cpu_us": [600.0] * 2},
        portkey={"passed.chunk_cpu_us": [45.0] * 2},
    )


def rows_of(report: str, name: str) -> list[list[str]]:
    """In the order of the tables: a figure, its ratio, the claim."""
    found = [line for line in report.splitlines() if line.startswith(f"| {name} |")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found]


def verdicts(record: Record) -> list[Verdict]:
    return [judged.verdict for judged in judge(record)]


def test_a_figure_is_the_median_with_the_least_beside_it() -> None:
    record = record_of(nginx={"passed.chunk_cpu_us": [9.0, 7.0, 8.0]}, ours={"passed.chunk_cpu_us": [16.0]})
    assert rows_of(markdown(record), "CPU per chunk, passed")[0][2:] == ["8.00 (7.00)", "16.00"]


def test_a_ratio_is_the_median_of_the_ratios_within_a_round() -> None:
    """A noisy round is noisy for both: the ratio of the medians would be 1.5."""
    record = record_of(nginx={"short.request_cpu_us": [10, 40, 20]}, ours={"short.request_cpu_us": [20, 80, 30]})
    assert record.ratio((OURS, "short.request_cpu_us"), ("nginx", "short.request_cpu_us")) == 2.0


def test_only_rounds_that_both_have_are_compared() -> None:
    record = record_of(nginx={"passed.chunk_cpu_us": [5, 5, 1]}, ours={"translated.chunk_cpu_us": [10, 10]})
    assert json.loads(as_json(record))["ratios"][OURS] == {"CPU per chunk, translated": 2.0}


def test_what_is_added_to_the_first_token_is_what_the_provider_alone_does_not_take() -> None:
    figure = "first_text.first_text_us"
    record = record_of(direct={figure: [50_000, 50_100]}, nginx={figure: [50_200, 50_200, 90_000]}, ours={})
    assert record.of("nginx", "first_text.added_us") == [200, 100]
    assert record.of(DIRECT, "first_text.added_us") == []


def test_the_cost_of_accounting_is_reported() -> None:
    figure = "short.request_cpu_us"
    record = record_of(nginx={figure: [20, 20]}, ours={figure: [130, 150]}, plain={figure: [100, 100]})
    assert "add 40.0 us to a short request: 2.00 of nginx's" in markdown(record)


def test_systems_and_scenarios_may_be_missing() -> None:
    for record in (record_of(), record_of(ours={"memory.idle_mb": [60.0]}), record_of(ours={})):
        assert "| claim | limit | measured | verdict |" in markdown(record)
        assert set(json.loads(as_json(record))) >= {"claims", "ratios", "rounds", "facts"}
    assert "nginx's" not in markdown(record_of(ours={"passed.chunk_cpu_us": [8.0]}))


def test_a_peer_brings_its_note() -> None:
    assert "LiteLLM runs without a database" in markdown(full_record())
    assert "LiteLLM runs" not in markdown(record_of(ours={"passed.chunk_cpu_us": [8.0]}))


def test_a_noisy_machine_is_reported() -> None:
    record = record_of(nginx={"passed.chunk_cpu_us": [5.0], "passed.others": [0.02], "tls.others": [0.3]})
    assert "Other programs took up to 30% of the measured core" in markdown(record)


def test_there_are_twenty_three_claims_and_all_can_be_kept() -> None:
    assert verdicts(full_record()) == [Verdict.KEPT] * len(CLAIMS) == [Verdict.KEPT] * 23


@pytest.mark.parametrize(
    ("figure", "value", "claim"),
    [
        ("passed__chunk_cpu_us", 10.1, "CPU per chunk, lockstep, passed"),
        ("translated__chunk_cpu_us", 15.1, "CPU per chunk, lockstep, translated openai to openai"),
        ("anthropic__chunk_cpu_us", 20.1, "CPU per chunk, lockstep, Anthropic or Gemini to openai"),
        ("gemini__chunk_cpu_us", 20.1, "CPU per chunk, lockstep, Anthropic or Gemini to openai"),
        ("messages_passed__chunk_cpu_us", 11.1, "CPU per chunk, lockstep, Messages passed"),
        ("messages__chunk_cpu_us", 15.1, "CPU per chunk, lockstep, openai to Messages"),
        ("responses_passed__chunk_cpu_us", 11.1, "CPU per chunk, lockstep, Responses passed"),
        (
            "from_responses__chunk_cpu_us",
            17.6,
            "CPU per chunk, lockstep, Responses to openai or openai to Responses",
        ),
        ("responses__chunk_cpu_us", 17.6, "CPU per chunk, lockstep, Responses to openai or openai to Responses"),
        *((f"{scenario}__chunk_cpu_us", 15.1, BEDROCK) for scenario in ("converse", "invoke_passed", "invoke")),
        ("resumable__ratio", 1.21, "CPU per chunk of a resumable stream against another"),
        ("short__request_cpu_us", 140.1, "CPU per short buffered request"),
        ("first_text__first_text_us", 50_601, "added time to first token, one stream at a time, median"),
        ("memory__stream_kib", 12.1, "memory per open idle stream"),
        ("memory__idle_mb", 70.1, "memory when idle, without the embedded model"),
        ("growth__ratio", 1.31, "CPU per chunk at 5,000 streams against 100"),
        ("start__first_answer_s", 1.51, "start to first answer"),
        ("paced_1000__delivered", 47_499, "chunks delivered at 1,000 paced streams"),
        ("overload__goodput_10", 0.84, "goodput at 3 and 10 times the peak"),
        ("overload__accepted_p99_ms_3", 1001.0, "time to first token of what is accepted then, p99"),
        ("overload__refusal_p99_ms_10", 51.0, "time to a refusal then, p99"),
        ("overload__health_p99_ms_10", 51.0, "/health then, p99"),
        ("overload__quiet_refused_3", 1.0, "requests of a quiet key refused then"),
    ],
)
def test_a_claim_over_its_limit_is_not_kept(figure: str, value: float, claim: str) -> None:
    record = full_record(**{figure: value})
    assert claim in {judged.claim.what for judged in judge(record) if judged.verdict is Verdict.NOT_KEPT}
    assert rows_of(markdown(record), claim)[-1][-1] == "not met"


def test_a_peer_must_cost_so_many_times_more() -> None:
    missed = [judged for judged in judge(full_record(passed__chunk_cpu_us=10.0)) if judged.verdict is Verdict.NOT_KEPT]
    assert [(judged.claim.what, judged.limit, judged.figure) for judged in missed] == [
        ("against Portkey, CPU per chunk", "at least 5 times less", "4.50 times less")
    ]


def test_a_claim_of_which_nothing_or_not_all_is_known_is_not_measured() -> None:
    assert verdicts(record_of(ours={})) == [Verdict.NOT_MEASURED] * len(CLAIMS)
    claim = Claim("two", 2, "s", (own("a.x"), own("b.x")))
    assert judge_one(record_of(ours={"a.x": [1]}), claim).verdict is Verdict.NOT_MEASURED
    assert judge_one(record_of(ours={"a.x": [3]}), claim).verdict is Verdict.NOT_KEPT
    assert judge_one(record_of(ours={"a.x": [1], "b.x": [2]}), claim).verdict is Verdict.KEPT


def test_the_claims_are_in_the_json_as_numbers() -> None:
    claims = json.loads(as_json(full_record()))["claims"]
    assert claims[0] == {
        "claim": "CPU per chunk, lockstep, passed",
        "limit": 2,
        "is_floor": False,
        "unit": "x nginx",
        "measured": 1.6,
        "verdict": "met",
    }


def test_every_plot_that_has_figures_is_written_and_shown(tmp_path: Path) -> None:
    (tmp_path / "of_another_run.svg").write_text("")
    record = full_record()
    write(record, tmp_path)
    names = {"chunk.svg", "memory.svg", "growth.svg", "transit.svg"}
    assert {path.name for path in tmp_path.iterdir()} == {"report.md", "report.json", *names}
    report = (tmp_path / "report.md").read_text()
    for name in names:
        assert ElementTree.parse(tmp_path / name).getroot().tag == f"{SVG}svg"  # noqa: S314
        assert f"]({name})" in report
    assert report.rstrip().splitlines()[-1].startswith("| against Portkey")


def test_a_plot_without_figures_is_left_out() -> None:
    assert set(plots(record_of(ours={"passed.chunk_cpu_us": [8.0]}))) == {"chunk.svg"}


def test_bars_have_numbers_units_and_escaped_names() -> None:
    name = 'a<b> & "c"'
    root = ElementTree.fromstring(bars(name, "us & more", [Group(name, {name: 14.0})], [name]))  # noqa: S314
    assert root.get("aria-label") == name
    words = [element.text for element in root.iter(f"{SVG}text")]
    assert {name, "us & more", "14.0"} <= set(words)


@pytest.mark.parametrize("is_log", [False, True])
def test_a_longer_bar_is_a_larger_number(is_log: bool) -> None:
    groups = [Group("one", {"nginx": 8.0, "litellm": 900.0}), Group("two", {"litellm": 0.5})]
    root = ElementTree.fromstring(bars("t", "us", groups, ["nginx", "litellm"], is_log=is_log))  # noqa: S314
    bar_widths = [
        float(rect.get("width", "")) for rect in root.iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None
    ]
    assert bar_widths[1] > bar_widths[0] > bar_widths[2] > 0
    colours = [rect.get("fill") for rect in root.iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
    assert colours[0] != colours[1] == colours[2]


def test_numbers_at_the_ends_of_lines_do_not_lie_on_each_other() -> None:
    drawn = [Line(name, [(10, 1.0), (100, last)], name) for name, last in (("a", 2.0), ("b", 2.01), ("c", 2.02))]
    root = ElementTree.fromstring(lines("t", "streams", "ms", drawn, ["a", "b", "c"]))  # noqa: S314
    places = [float(each.get("y", "")) for each in root.iter(f"{SVG}text") if each.text in ("2.00", "2.01", "2.02")]
    gaps = [below - above for above, below in zip(sorted(places), sorted(places)[1:], strict=False)]
    assert len(places) == 3
    assert min(gaps) > 10
