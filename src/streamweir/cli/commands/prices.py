"""`streamweir prices`: what models cost by the current price list, and how to replace the list.

The gateway and its database are not touched, and need not run. A new list is read, converted and
checked whole before it replaces anything; what it changes is said, for it is money.
"""

import hashlib
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from streamweir.cli.database import StoreAccess, json_option, store_options
from streamweir.cli.view.table import NONE, dollars, number, show_json, show_table
from streamweir.store.db.clock import now_ms

if TYPE_CHECKING:
    from streamweir.config.model import Config
    from streamweir.policy.pricing.pricelist import Model, PriceList
    from streamweir.policy.pricing.prices import Rates
    from streamweir.policy.pricing.pricetable import PriceTable

DATA_SET = "https://raw.githubusercontent.com/pydantic/genai-prices/refs/heads/main/prices/new_data/v2/data.json"
LICENCE = "MIT, https://github.com/pydantic/genai-prices"
MAX_LINES = 20
"""Of each kind of change."""

_NUMBERS = ("input", "output", "cache read", "cache write")


class Line(NamedTuple):
    provider: str
    model: str
    rates: "Rates | None"
    source: str
    context: int | None = None


@click.group("prices", short_help="Show and update model prices.")
def command() -> None:
    """Show and update model prices, in US dollars per million tokens."""


@command.command("show", short_help="Show the current prices.")
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@click.option("--provider", metavar="P", help="Only this provider: a kind of the configuration, or a name of the list.")
@click.option("--price-group", "group", metavar="G", help="Sold by this price group of the file.  [default: default]")
@json_option
@store_options
def show(access: StoreAccess, models: tuple[str, ...], provider: str | None, group: str | None, as_json: bool) -> None:
    """Show the current prices of every model, or of those whose name contains MODEL.

    With --config, the aliases of the file come first, each with what it is sold for: by the price group, by its own
    price, or at the cost of its most expensive target.
    """
    from streamweir.policy.pricing.pricetable import PROVIDER_IDS, PriceTable

    price_list, file = _current_list(access.checked_data_dir() if access.place.is_named else access.data_dir)
    table, at_ms = PriceTable(price_list), now_ms()
    lines = [
        line
        for line in _of_file(_config(access), table, at_ms, group)
        if provider in (None, line.provider)
        and (not models or any(name.lower() in line.model.lower() for name in models))
    ]
    for row in table.rows(at_ms):
        is_requested = provider is None or row.provider in (provider, PROVIDER_IDS.get(provider))
        if is_requested and (not models or any(_matches(row.model, name) for name in models)):
            lines.append(Line(row.provider, row.model.id, row.rates, "list", row.model.context))
    where = "built-in" if file is None else str(file)
    if as_json:
        show_json(
            {
                "version": price_list.version,
                "source": price_list.source,
                "file": where,
                "currency": "USD",
                "unit": "1M tokens",
                "models": [_members(line) for line in lines],
            }
        )
        return
    columns = ("provider", "model", *_NUMBERS, "source", "more")
    show_table(columns, [_cells(line) for line in lines], right=_NUMBERS, none="no such model")
    click.echo(f"US dollars per million tokens, price list {price_list.version} ({where}: {price_list.source})")


@command.command("update", short_help="Fetch a newer price list.")
@click.option(
    "--from",
    "source",
    metavar="FILE_OR_URL",
    default=DATA_SET,
    help="Source of the list.  [default: the published data set]",
)
@store_options
def update(access: StoreAccess, source: str) -> None:
    """Fetch the published data set genai-prices. The gateway uses it from its next start.

    FILE_OR_URL may also be a prices.json that this command has written.
    """
    from streamweir.cli.price_change import changes
    from streamweir.policy.pricing.pricetable import PriceTable
    from streamweir.store.prices.file import PriceFileError, builtin_version, save_prices

    data_dir = access.checked_data_dir()
    new = _fetch(source)
    if new.version[:10] < builtin_version()[:10]:
        raise click.ClickException(
            f"{source}: version {new.version} is older than the built-in list {builtin_version()}"
        )
    if new.version[:10] > str(datetime.now(UTC).date() + timedelta(days=1)):
        raise click.ClickException(f"{source}: version {new.version} is in the future")
    old, _ = _current_list(data_dir, or_builtin=True)
    at_ms = now_ms()
    found = changes(PriceTable(old).rows(at_ms), PriceTable(new).rows(at_ms))
    try:
        file = save_prices(new, data_dir)
    except PriceFileError as error:
        raise click.ClickException(str(error)) from None
    for kind, names in found.items():
        for name in names[:MAX_LINES]:
            click.echo(f"{kind:<8}{name}")
        if len(names) > MAX_LINES:
            click.echo(f"{kind:<8}and {len(names) - MAX_LINES:,} more")
    counts = ", ".join(f"{len(names):,} {kind}" for kind, names in found.items())
    click.echo(f"{counts}\nPrice list {new.version} is in {file}. The gateway uses it from its next start.")


def _current_list(data_dir: Path, or_builtin: bool = False) -> "tuple[PriceList, Path | None]":
    from streamweir.store.prices.file import PriceFileError, load_prices

    try:
        return load_prices(data_dir)
    except PriceFileError as error:
        if or_builtin:  # it is about to be replaced
            return load_prices(None)
        raise click.ClickException(str(error)) from None


def _fetch(source: str) -> "PriceList":
    from streamweir.cli.download import DownloadFailed, download
    from streamweir.policy.pricing.pricelist import InvalidPrices, decode_list, is_list
    from streamweir.store.prices.data import read_data
    from streamweir.store.prices.file import MAX_BYTES, PriceFileError, read_bounded

    try:
        data = download(source, MAX_BYTES) if "://" in source else read_bounded(Path(source))
        if is_list(data):
            return decode_list(data)
        version = f"{datetime.now(UTC).date()}.{hashlib.sha256(data).hexdigest()[:8]}"
        return read_data(data, version=version, source=source.partition("?")[0], licence=LICENCE)
    except (DownloadFailed, InvalidPrices) as error:
        raise click.ClickException(f"{source}: {error}; prices are unchanged") from None
    except PriceFileError as error:
        raise click.ClickException(str(error)) from None


def _config(access: StoreAccess) -> "Config":
    """Of the file only what prices depend on, so that none of the variables for the providers' keys is needed, and no
    command for a secret is run."""
    from streamweir.config.error import ConfigError, raise_all
    from streamweir.config.file.schema import Reader
    from streamweir.config.load import load_config
    from streamweir.config.model import Config

    file = access.config_file
    if file is None:
        return Config()
    try:
        environ = access.environ()
        try:
            tree = tomllib.loads(file.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError, RecursionError):
            return load_config(file, environ)  # which says what is wrong with it, and where
        reader = Reader(environ)
        known = {name: tree.get(name, []) for name in ("models", "price_groups")}
        config = reader.read({**known, "providers": _kinds(tree)}, Config)
        raise_all(reader.problems, str(file))
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    assert isinstance(config, Config)  # noqa: S101 (there were no complaints)
    return config


def _kinds(tree: dict[str, Any]) -> list[dict[str, Any]]:
    providers = tree.get("providers")
    found = [each for each in providers if isinstance(each, dict)] if isinstance(providers, list) else []
    kinds = [{name: each[name] for name in ("name", "kind") if name in each} for each in found]
    return [{**kind, "api_keys": _discounts(each)} for kind, each in zip(kinds, found, strict=True)]


def _discounts(provider: dict[str, Any]) -> list[dict[str, Any]]:
    """Its accounts without their keys."""
    accounts = provider.get("api_keys")
    tables = [each if isinstance(each, dict) else {} for each in accounts] if isinstance(accounts, list) else []
    discount = "discount_percent"
    return [
        {"name": str(number), **({discount: each[discount]} if discount in each else {})}
        for number, each in enumerate(tables, 1)
    ]


def _of_file(config: "Config", table: "PriceTable", at_ms: int, group: str | None) -> Iterator[Line]:
    """What has a price that is not the list's: aliases with their fallbacks, and what is inside of this program."""
    from streamweir.config.price import own_prices, price_groups, target_costs
    from streamweir.config.route import routes_of
    from streamweir.policy.pricing.pricebook import PriceBook
    from streamweir.policy.pricing.prices import highest_rates
    from streamweir.policy.pricing.pricetable import BUILT_IN, FREE
    from streamweir.server.request.runtime.route_prices import RoutePrices

    for kind in sorted(BUILT_IN):
        yield Line(kind, "*", FREE, "built-in")
    kinds = defaultdict(str, {provider.name: provider.kind for provider in config.providers})
    prices = RoutePrices(PriceBook(table), kinds, own_prices(config), price_groups(config), target_costs(config))
    routes = routes_of(config)
    if group is not None and group not in prices.groups:
        raise click.ClickException(f"there is no price group {group!r} in the configuration")
    for model in config.models:
        route = routes.resolve(model.id)
        if route is None:
            continue
        quote, _ = prices.of(route, at_ms, group)
        known = [rates for rates in quote.sold.values() if rates is not None]
        highest = highest_rates(known) if known and len(known) == len(quote.sold) else None
        yield Line("(alias)", model.id, highest, quote.version.partition("+")[2] or "list")


def _matches(model: "Model", name: str) -> bool:
    from streamweir.policy.pricing.pricetable import matches

    return name.lower() in model.id.lower() or (model.match is not None and matches(model.match, name.lower()))


def _cells(line: Line) -> Sequence[str]:
    rates = line.rates
    if rates is None:
        return (line.provider, line.model, NONE, NONE, NONE, NONE, line.source, "no price is known")
    more = [
        f"above {number(tier.above)} tokens {dollars(tier.rates.input)}, {dollars(tier.rates.output)}"
        for tier in rates.tiers
    ]
    more += [service.name for service in rates.services]
    more += [f"{dollars(rates.per_request)} a request"] if rates.per_request else []
    more += [f"{dollars(rates.per_search)} a search"] if rates.per_search else []
    amounts = (rates.input, rates.output, rates.cache_read, rates.cache_write)
    return (line.provider, line.model, *(dollars(amount) for amount in amounts), line.source, "; ".join(more))


def _members(line: Line) -> dict[str, Any]:
    from streamweir.policy.pricing.prices import in_dollars

    return {
        "provider": line.provider,
        "model": line.model,
        "source": line.source,
        "context_window": line.context,
        "pricing": None if line.rates is None else in_dollars(line.rates),
    }
