"""What the models of a route read and write at the most: by all of them, and by the price table that is in force."""

from streamweir.config.model import Store
from streamweir.pipeline.body_rules import BodyRules
from streamweir.pipeline.prompt_bound import IMAGE_TOKENS, SMALL_TOKEN_IMAGE
from streamweir.policy.pricing.pricebook import PriceBook
from streamweir.policy.pricing.pricelist import Model, Price, PriceList, Provider
from streamweir.policy.pricing.pricetable import PriceTable
from streamweir.policy.routing.health import TargetId
from streamweir.policy.routing.route import Route, RouteTable, RouteTarget
from streamweir.server.request.runtime.model_limits import AnswerLimits, ModelLimitsTable

KINDS = {"o": "openai", "g": "groq"}
STORE = Store(answer_tokens=5000, remote_tokens=9000)


def table(**windows: int) -> PriceTable:
    models = tuple([Model(id=name, context=size, prices=(Price(input=1, output=1),)) for name, size in windows.items()])
    providers = {"openai": Provider(models=models), "groq": Provider(models=models)}
    return PriceTable(PriceList(version="v", source="a test", licence="", providers=providers))


def route(*names: str) -> Route:
    return Route("alias", tuple([RouteTarget(TargetId(*name.split("/"))) for name in names]))


def test_the_widest_window_the_narrowest_and_the_shortest_answer_count() -> None:
    reach = ModelLimitsTable(KINDS, PriceBook(table(a=1000, b=2000)), STORE).of(route("o/a", "o/b", "o/gpt-4o"))
    assert (reach.largest_window, reach.answers) == (9000, (AnswerLimits(smallest_window=1000, answer=5000),))
    assert (reach.image_tokens, reach.links_are_images) == (IMAGE_TOKENS, True)


def test_one_model_is_enough_for_the_worse_of_two_bounds() -> None:
    reach = ModelLimitsTable(KINDS, PriceBook(table()), STORE).of(route("o/gpt-4o-mini", "g/x"))
    assert (reach.largest_window, reach.answers[0].smallest_window) == (9000, None)
    assert (reach.image_tokens, reach.links_are_images) == (SMALL_TOKEN_IMAGE, False)


def test_the_longest_answer_is_that_of_the_operator_or_the_documented_one_within_the_window() -> None:
    book = PriceBook(table(**{"gpt-4o": 10_000, "llama": 8000}))
    limits = ModelLimitsTable(KINDS, book, STORE, {TargetId("g", "gpt-4o"): 20_000, TargetId("o", "mine"): 7})
    names = ("o/gpt-4o", "g/gpt-4o", "g/llama", "o/mine", "g/mine", "o/gpt-4.1")
    found = {name: limits.max_output(TargetId(*name.split("/"))) for name in names}
    assert list(found.values()) == [10_000, 20_000, 8000, 7, None, 32_768]
    assert limits.of(route("o/mine", "o/gpt-4o")).answers[0].answer == 7


def test_the_longest_of_a_route_is_known_only_if_it_is_of_all() -> None:
    book = PriceBook(table())
    assert ModelLimitsTable(KINDS, book, STORE).of(route("o/gpt-4.1", "o/gpt-4o")).longest == 32_768
    assert ModelLimitsTable(KINDS, book, STORE).of(route("o/gpt-4.1", "o/x")).longest is None


def test_what_a_fallback_reads_and_writes_counts_too_but_shortens_no_answer_of_the_others() -> None:
    windows = {"own": 1000, "larger": 4000, "gpt-4o": 2000}
    model_limits = ModelLimitsTable(KINDS, PriceBook(table(**windows)), STORE, {TargetId("o", "own"): 70})
    (found, _) = (
        RouteTable(
            [
                Route("alias", (RouteTarget(TargetId("o", "own")),), context_fallbacks=("large",)),
                Route("large", (RouteTarget(TargetId("g", "larger")),), fallbacks=("g/gpt-4o-mini",)),
            ],
            KINDS,
        ).resolve(name)
        for name in ("alias", "large")
    )
    assert found is not None
    reach = model_limits.of(found)
    assert (reach.largest_window, reach.longest) == (9000, 16_384)
    assert (reach.image_tokens, reach.links_are_images) == (SMALL_TOKEN_IMAGE, False)
    assert reach.answers == (
        AnswerLimits(smallest_window=1000, answer=70),
        AnswerLimits(smallest_window=4000, answer=5000),
        AnswerLimits(smallest_window=None, answer=16_384),
    )


def test_a_model_that_hides_nothing_may_be_asked_to_reason_by_what_the_operator_sets() -> None:
    rules = {
        TargetId("g", "gpt-4o"): BodyRules(defaults={"reasoning_effort": "low"}),
        TargetId("o", "gpt-4o"): BodyRules(),
    }
    own = Route("alias", (RouteTarget(TargetId("o", "gpt-4o")),), fallbacks=("g/gpt-4o",))
    with_fallback = RouteTable([own], KINDS).resolve("alias")
    assert with_fallback is not None
    routes = (route("o/gpt-4o"), route("o/o3"), route("g/gpt-4o"), with_fallback)
    tables = [ModelLimitsTable(KINDS, PriceBook(table()), STORE, rules_of=rules.get) for _ in routes]
    found = [limits.of(each).never_hides for limits, each in zip(tables, routes, strict=True)]
    assert found == [True, False, False, False]


def test_it_is_made_once_for_each_table() -> None:
    book = PriceBook(table(a=1000))
    model_limits = ModelLimitsTable(KINDS, book, STORE)
    assert model_limits.of(route("o/a")) is model_limits.of(route("o/a"))
    book.table = table(a=3000)
    assert model_limits.of(route("o/a")).answers[0].smallest_window == 3000


def test_the_longest_answer_is_read_again_when_the_prices_change() -> None:
    book = PriceBook(table(**{"gpt-4o": 10_000}))
    model_limits, target = ModelLimitsTable(KINDS, book, STORE), TargetId("o", "gpt-4o")
    assert [model_limits.max_output(target) for _ in range(2)] == [10_000, 10_000]
    book.table = table(**{"gpt-4o": 5000})
    assert model_limits.max_output(target) == 5000
